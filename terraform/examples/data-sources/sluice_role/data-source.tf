data "sluice_role" "support" {
  name = "support"
}
