resource "sluice_api_key" "checkout" {
  name = "checkout"

  scope = [{
    namespace_id = sluice_namespace.prod.id
    permissions  = ["PUB", "SUB"]
    topics       = ["orders*"]
  }]

  allowed_cidrs = ["203.0.113.0/24"]
  expires_at    = "2027-01-31T00:00:00Z"

  # Rotation: another value makes another key before this one goes.
  rotation_keepers = { quarter = "2026-Q4" }

  lifecycle {
    create_before_destroy = true
  }
}
