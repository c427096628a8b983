resource "sluice_role_binding" "support" {
  principal_id = sluice_service_account.helpdesk.id
  role         = sluice_role.support.id

  scope = {
    kind         = "topic"
    namespace_id = sluice_namespace.prod.id
    pattern      = "orders*"
  }

  expires_at = "2027-01-31T00:00:00Z"
}
