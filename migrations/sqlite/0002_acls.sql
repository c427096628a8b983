-- Access control lists of namespaces.

CREATE TABLE IF NOT EXISTS acls (
  id TEXT NOT NULL PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  namespace_id TEXT NOT NULL,
  effect TEXT NOT NULL,
  principal TEXT NOT NULL,
  resource TEXT NOT NULL,
  pattern TEXT NOT NULL,
  operations TEXT NOT NULL,
  cidrs TEXT NOT NULL,
  expires_at INTEGER NULL,
  description TEXT NOT NULL,
  phase TEXT NOT NULL,
  reason TEXT NOT NULL,
  observed_revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS acls_page ON acls (tenant_id, namespace_id, id);
CREATE INDEX IF NOT EXISTS acls_principal ON acls (tenant_id, principal);
