data "sluice_api_key" "checkout" {
  key_id = "slk_7Qm2XvN4kPz9Rt3Lc8Wd"
}

output "last_used_at" {
  value = data.sluice_api_key.checkout.last_used_at
}
