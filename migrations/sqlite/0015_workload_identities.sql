-- Programs that another issuer vouches for, and the keys that carry their rights.

CREATE TABLE IF NOT EXISTS workload_identities (
  id TEXT NOT NULL PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  issuer TEXT NOT NULL,
  audience TEXT NOT NULL,
  subject TEXT NOT NULL,
  conditions TEXT NOT NULL,
  service_account_id TEXT NOT NULL,
  key_id TEXT NOT NULL,
  max_ttl_ms INTEGER NOT NULL,
  disabled INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS workload_identities_name ON workload_identities (tenant_id, name);
CREATE INDEX IF NOT EXISTS workload_identities_page ON workload_identities (tenant_id, id);
CREATE INDEX IF NOT EXISTS workload_identities_account ON workload_identities (tenant_id, service_account_id);

ALTER TABLE api_keys ADD COLUMN workload_id TEXT NOT NULL DEFAULT '';
