data "sluice_tenant" "own" {}
