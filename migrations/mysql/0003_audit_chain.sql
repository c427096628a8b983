-- The hash chain over the audit events of each tenant. Events from before have
-- no place in it.

CREATE TABLE IF NOT EXISTS audit_chain (
  tenant_id VARCHAR(40) NOT NULL,
  sequence BIGINT NOT NULL,
  event_id VARCHAR(40) NOT NULL,
  previous_hash CHAR(64) NOT NULL,
  hash CHAR(64) NOT NULL,
  PRIMARY KEY (tenant_id, sequence),
  UNIQUE KEY audit_chain_event (event_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS audit_heads (
  tenant_id VARCHAR(40) NOT NULL PRIMARY KEY,
  sequence BIGINT NOT NULL,
  hash CHAR(64) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
