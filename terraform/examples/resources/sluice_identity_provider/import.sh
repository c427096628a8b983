# By id, which `sluice sso list` shows. The secret is not needed.
terraform import sluice_identity_provider.staff idp_01JAB3CD4EF5GH6JK7MN8PQ9RS
