data "sluice_role_bindings" "ci" {
  principal_id = data.sluice_service_account.ci.id
}
