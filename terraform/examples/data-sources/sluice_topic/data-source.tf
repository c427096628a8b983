data "sluice_topic" "orders" {
  namespace_id = "k7m2q9x4w1bz"
  name         = "orders"
}
