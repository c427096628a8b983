resource "sluice_role" "support" {
  name        = "Support"
  description = "Looks at messages, changes nothing"
  permissions = ["topic:read", "group:read", "message:read"]
}
