resource "sluice_member_invitation" "grace" {
  email = "grace@example.com"
  role  = "none"

  # Takes the person out of the tenant when the block goes.
  on_destroy = "remove"
}

# Once they accepted, they may be given roles in parts of the tenant.
resource "sluice_role_binding" "grace" {
  count        = sluice_member_invitation.grace.state == "accepted" ? 1 : 0
  principal_id = sluice_member_invitation.grace.accepted_by
  role         = "developer"
  scope        = { kind = "namespace", namespace_id = sluice_namespace.prod.id }
}
