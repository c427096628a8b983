terraform {
  required_providers {
    sluice = {
      source = "sluicemq/sluice"
    }
  }
}

# The credential comes from SLUICE_CLIENT_ID and SLUICE_CLIENT_SECRET: an API
# key with a control role. Secrets do not belong into configuration files.
provider "sluice" {
  endpoint = "https://sluice.example.com"
}
