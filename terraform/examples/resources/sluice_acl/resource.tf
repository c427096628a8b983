# The ledger receives payments, from the network of the back office.
resource "sluice_acl" "payments" {
  namespace_id = sluice_namespace.prod.id
  effect       = "allow"
  principal    = sluice_api_key.ledger.id
  resource     = "topic"
  pattern      = "payments-*"
  operations   = ["SUB"]
  cidrs        = ["10.20.0.0/16"]
  description  = "The ledger reads payments"
}

# A rule that denies beats every other one.
resource "sluice_acl" "freeze" {
  namespace_id = sluice_namespace.prod.id
  effect       = "deny"
  principal    = "*"
  resource     = "namespace"
  pattern      = "*"
  operations   = ["MANAGE"]
  expires_at   = "2027-01-02T00:00:00Z"
}
