resource "sluice_consumer_group" "billing" {
  namespace_id = sluice_namespace.prod.id
  name         = "billing"
  order        = "fifo"

  retry = {
    max_attempts = 8
    strategy     = "exponential"
    delays       = ["5s", "1h"]
  }
}
