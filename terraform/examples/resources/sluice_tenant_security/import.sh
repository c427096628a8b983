# By the id of the tenant, which `sluice whoami` shows.
terraform import sluice_tenant_security.own ten_01JAB3CD4EF5GH6JK7MN8PQ9RS
