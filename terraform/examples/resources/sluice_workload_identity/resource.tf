resource "sluice_service_account" "ci" {
  name = "ci"
}

# Jobs of the main branch change topics and send, without any secret.
resource "sluice_workload_identity" "deploy" {
  name               = "deploy"
  issuer             = "https://token.actions.githubusercontent.com"
  audience           = "https://sluice.example.com"
  subject            = "repo:acme/checkout:*"
  conditions         = { ref = "refs/heads/main" }
  service_account_id = sluice_service_account.ci.id
  control_role       = "developer"

  scope = [{
    namespace_id = sluice_namespace.prod.id
    permissions  = ["PUB"]
    topics       = ["orders*"]
  }]
}
