data "sluice_members" "all" {}

output "owners" {
  value = [for m in data.sluice_members.all.members : m.email if m.role == "owner"]
}
