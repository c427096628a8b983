data "sluice_service_accounts" "all" {}
