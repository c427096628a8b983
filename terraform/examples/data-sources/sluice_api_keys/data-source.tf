# Keys that were never used.
data "sluice_api_keys" "active" {
  state = "active"
}

output "unused" {
  value = [for k in data.sluice_api_keys.active.api_keys : k.name if k.last_used_at == null]
}
