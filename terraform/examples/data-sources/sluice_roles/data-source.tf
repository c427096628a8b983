data "sluice_roles" "all" {}

output "own_roles" {
  value = [for r in data.sluice_roles.all.roles : r.name if !r.built_in]
}
