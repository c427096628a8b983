resource "sluice_namespace" "prod" {
  name         = "Production"
  description  = "The web shop"
  labels       = { stage = "prod" }
  max_send_tps = 5000
}
