# A namespace with a topic, a consumer group and a key for one application.
#
#   export SLUICE_ENDPOINT=http://127.0.0.1:8080
#   export SLUICE_CLIENT_ID=slk_...      # a key with the control role admin:
#   export SLUICE_CLIENT_SECRET=sls_...  # sluice key create terraform --no-scope --control-role admin
#   terraform init && terraform apply
#   terraform output -raw secret_key
terraform {
  required_providers {
    sluice = {
      source = "sluicemq/sluice"
    }
  }
}

provider "sluice" {}

resource "sluice_namespace" "shop" {
  name   = "shop"
  labels = { stage = "test" }

  # Turn this off and apply before a destroy.
  deletion_protection = true
}

resource "sluice_topic" "orders" {
  namespace_id = sluice_namespace.shop.id
  name         = "orders"
  queues       = 8
  retention    = "72h"
}

resource "sluice_consumer_group" "billing" {
  namespace_id = sluice_namespace.shop.id
  name         = "billing"
  retry        = { max_attempts = 5 }
}

resource "sluice_api_key" "checkout" {
  name = "checkout"
  scope = [{
    namespace_id = sluice_namespace.shop.id
    permissions  = ["PUB", "SUB"]
    topics       = [sluice_topic.orders.name]
    groups       = [sluice_consumer_group.billing.name]
  }]

  # Another value makes another key; the old one works for 15 minutes more.
  rotation_keepers = { generation = "1" }
  grace_period     = "15m"
}

output "remoting_endpoint" {
  description = "Name server address for 4.x SDKs and 5.x remoting SDKs."
  value       = sluice_namespace.shop.endpoints.remoting
}

output "grpc_endpoint" {
  description = "Endpoint of 5.x SDKs."
  value       = sluice_namespace.shop.endpoints.grpc
}

output "access_key" {
  value = sluice_api_key.checkout.key_id
}

output "secret_key" {
  value     = sluice_api_key.checkout.secret
  sensitive = true
}
