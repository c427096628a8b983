-- The keys that seal data keys and signing keys, each wrapped by a master key
-- that lies elsewhere; signing keys of more than one algorithm; access tokens
-- that were revoked before their time.

CREATE TABLE IF NOT EXISTS root_keys (
  id TEXT NOT NULL PRIMARY KEY,
  master_id TEXT NOT NULL,
  wrapped BLOB NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

ALTER TABLE signing_keys ADD COLUMN algorithm TEXT NOT NULL DEFAULT 'EdDSA';

CREATE TABLE IF NOT EXISTS revoked_tokens (
  id TEXT NOT NULL PRIMARY KEY,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX revoked_tokens_expiry ON revoked_tokens (expires_at);
