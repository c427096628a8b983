data "sluice_service_account" "ci" {
  name = "ci"
}
