-- Programs that another issuer vouches for, and the keys that carry their rights.

CREATE TABLE IF NOT EXISTS workload_identities (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  tenant_id VARCHAR(40) NOT NULL,
  name VARCHAR(100) NOT NULL,
  issuer VARCHAR(300) NOT NULL,
  audience VARCHAR(255) NOT NULL,
  subject VARCHAR(255) NOT NULL,
  conditions TEXT NOT NULL,
  service_account_id VARCHAR(40) NOT NULL,
  key_id VARCHAR(40) NOT NULL,
  max_ttl_ms BIGINT NOT NULL,
  disabled TINYINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  UNIQUE KEY workload_identities_name (tenant_id, name),
  KEY workload_identities_page (tenant_id, id),
  KEY workload_identities_account (tenant_id, service_account_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

ALTER TABLE api_keys ADD COLUMN workload_id VARCHAR(40) NOT NULL DEFAULT '';
