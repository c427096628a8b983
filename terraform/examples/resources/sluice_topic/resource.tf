resource "sluice_topic" "orders" {
  namespace_id = sluice_namespace.prod.id
  name         = "orders"
  type         = "FIFO"
  queues       = 8
  retention    = "168h"
  labels       = { team = "checkout" }
}
