data "sluice_acl" "payments" {
  namespace_id = "k7m2q9x4w1bz"
  id           = "acl_01JAB3CD4EF5GH6JK7MN8PQ9RS"
}
