data "sluice_member" "grace" {
  email = "grace@example.com"
}

resource "sluice_role_binding" "grace" {
  principal_id = data.sluice_member.grace.id
  role         = "viewer"
  scope        = { kind = "tenant" }
}
