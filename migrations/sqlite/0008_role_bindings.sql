-- Custom roles, and who has which role in which part of a tenant until when. A
-- service account is bound from its first binding on: its keys may no more than
-- its bindings give.

CREATE TABLE IF NOT EXISTS roles (
  id TEXT NOT NULL PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  permissions TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS roles_name ON roles (tenant_id, name);
CREATE INDEX IF NOT EXISTS roles_page ON roles (tenant_id, id);

CREATE TABLE IF NOT EXISTS role_bindings (
  id TEXT NOT NULL PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  principal_id TEXT NOT NULL,
  role TEXT NOT NULL,
  scope_kind TEXT NOT NULL,
  namespace_id TEXT NOT NULL,
  pattern TEXT NOT NULL,
  expires_at INTEGER NULL,
  created_by TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS role_bindings_page ON role_bindings (tenant_id, id);
CREATE INDEX IF NOT EXISTS role_bindings_principal ON role_bindings (tenant_id, principal_id);
CREATE INDEX IF NOT EXISTS role_bindings_role ON role_bindings (tenant_id, role);

ALTER TABLE service_accounts ADD COLUMN bound INTEGER NOT NULL DEFAULT 0;
