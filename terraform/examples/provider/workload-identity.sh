# In a job whose platform gives it a token of its own: a workload identity (sluice_workload_identity)
# turns it into one that lives 15 minutes at most. No secret is kept anywhere.
export SLUICE_ENDPOINT=https://sluice.example.com
export SLUICE_TOKEN=$(sluice workload-identity exchange wid_01JAB3CD4EF5GH6JK7MN8PQ9RS --token-file /var/run/secrets/tokens/sluice -o name)
terraform apply
