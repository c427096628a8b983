# By id, which `sluice workload-identity list` shows.
terraform import sluice_workload_identity.deploy wid_01JAB3CD4EF5GH6JK7MN8PQ9RS
