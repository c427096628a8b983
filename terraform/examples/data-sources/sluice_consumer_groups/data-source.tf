data "sluice_consumer_groups" "shop" {
  namespace_id = sluice_namespace.prod.id
}
