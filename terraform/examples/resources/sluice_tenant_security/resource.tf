resource "sluice_tenant_security" "own" {
  mfa_required = true
  max_key_age  = "2160h"

  # Only with a verified domain, so that people have a way in.
  sso_required = true
  depends_on   = [sluice_identity_domain_verification.example]
}
