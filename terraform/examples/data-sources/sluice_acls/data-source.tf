data "sluice_acls" "for_everybody" {
  namespace_id = sluice_namespace.prod.id
  principal    = "*"
}
