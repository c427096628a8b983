data "sluice_workload_identity" "deploy" {
  name = "deploy"
}
