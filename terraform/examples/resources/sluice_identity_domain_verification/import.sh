# By the provider and the domain.
terraform import sluice_identity_domain_verification.example idp_01JAB3CD4EF5GH6JK7MN8PQ9RS/example.com
