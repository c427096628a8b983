-- Access control lists of namespaces.

CREATE TABLE IF NOT EXISTS acls (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  tenant_id VARCHAR(40) NOT NULL,
  namespace_id VARCHAR(40) NOT NULL,
  effect VARCHAR(8) NOT NULL,
  principal VARCHAR(40) NOT NULL,
  resource VARCHAR(16) NOT NULL,
  pattern VARCHAR(128) NOT NULL,
  operations VARCHAR(255) NOT NULL,
  cidrs TEXT NOT NULL,
  expires_at BIGINT NULL,
  description VARCHAR(1000) NOT NULL,
  phase VARCHAR(16) NOT NULL,
  reason VARCHAR(1000) NOT NULL,
  observed_revision BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  KEY acls_page (tenant_id, namespace_id, id),
  KEY acls_principal (tenant_id, principal)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
