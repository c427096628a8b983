resource "sluice_service_account" "checkout" {
  name        = "checkout"
  description = "The checkout of the web shop"
  labels      = { team = "shop" }
}

resource "sluice_api_key" "checkout" {
  name     = "checkout"
  owner_id = sluice_service_account.checkout.id
  scope    = [{ namespace_id = sluice_namespace.prod.id, permissions = ["PUB"] }]
}
