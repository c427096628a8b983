data "sluice_consumer_group" "billing" {
  namespace_id = "k7m2q9x4w1bz"
  name         = "billing"
}
