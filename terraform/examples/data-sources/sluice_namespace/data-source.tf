data "sluice_namespace" "prod" {
  name = "Production"
}

output "endpoint" {
  value = data.sluice_namespace.prod.endpoints.grpc
}
