data "sluice_topics" "fifo" {
  namespace_id = sluice_namespace.prod.id
  type         = "FIFO"
}
