data "sluice_identity_providers" "all" {}
