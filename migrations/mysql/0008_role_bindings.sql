-- Custom roles, and who has which role in which part of a tenant until when. A
-- service account is bound from its first binding on: its keys may no more than
-- its bindings give.

CREATE TABLE IF NOT EXISTS roles (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  tenant_id VARCHAR(40) NOT NULL,
  name VARCHAR(100) NOT NULL,
  description VARCHAR(1000) NOT NULL,
  permissions TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  UNIQUE KEY roles_name (tenant_id, name),
  KEY roles_page (tenant_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS role_bindings (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  tenant_id VARCHAR(40) NOT NULL,
  principal_id VARCHAR(40) NOT NULL,
  role VARCHAR(40) NOT NULL,
  scope_kind VARCHAR(16) NOT NULL,
  namespace_id VARCHAR(40) NOT NULL,
  pattern VARCHAR(128) NOT NULL,
  expires_at BIGINT NULL,
  created_by VARCHAR(40) NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  KEY role_bindings_page (tenant_id, id),
  KEY role_bindings_principal (tenant_id, principal_id),
  KEY role_bindings_role (tenant_id, role)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

ALTER TABLE service_accounts ADD COLUMN bound TINYINT NOT NULL DEFAULT 0;
