variable "client_secret" {
  type      = string
  ephemeral = true
}

resource "sluice_identity_provider" "staff" {
  name      = "staff"
  issuer    = "https://login.example.com"
  client_id = "sluice-console"

  # Neither plan nor state hold the secret; raise the version to send another.
  client_secret_wo      = var.client_secret
  client_secret_version = 1

  domains         = ["example.com"]
  auto_enrol_role = "viewer"
}

output "redirect_uri" {
  value = sluice_identity_provider.staff.redirect_uri
}
