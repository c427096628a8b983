data "sluice_identity_provider" "staff" {
  name = "staff"
}
