data "sluice_workload_identities" "all" {}
