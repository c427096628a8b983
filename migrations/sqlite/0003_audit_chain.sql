-- The hash chain over the audit events of each tenant. Events from before have
-- no place in it.

CREATE TABLE IF NOT EXISTS audit_chain (
  tenant_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  event_id TEXT NOT NULL,
  previous_hash TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (tenant_id, sequence)
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS audit_chain_event ON audit_chain (event_id);

CREATE TABLE IF NOT EXISTS audit_heads (
  tenant_id TEXT NOT NULL PRIMARY KEY,
  sequence INTEGER NOT NULL,
  hash TEXT NOT NULL
) STRICT;
