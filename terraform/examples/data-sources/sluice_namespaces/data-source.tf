data "sluice_namespaces" "all" {}

output "namespaces" {
  value = { for n in data.sluice_namespaces.all.namespaces : n.name => n.id }
}
