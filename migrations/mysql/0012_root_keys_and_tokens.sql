-- The keys that seal data keys and signing keys, each wrapped by a master key
-- that lies elsewhere; signing keys of more than one algorithm; access tokens
-- that were revoked before their time.

CREATE TABLE IF NOT EXISTS root_keys (
  id VARCHAR(64) NOT NULL PRIMARY KEY,
  master_id VARCHAR(64) NOT NULL,
  wrapped VARBINARY(2048) NOT NULL,
  created_at BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

ALTER TABLE signing_keys MODIFY COLUMN public_key VARBINARY(2048) NOT NULL;
ALTER TABLE signing_keys MODIFY COLUMN sealed VARBINARY(4096) NOT NULL;
ALTER TABLE signing_keys ADD COLUMN algorithm VARCHAR(8) NOT NULL DEFAULT 'EdDSA';

CREATE TABLE IF NOT EXISTS revoked_tokens (
  id VARCHAR(64) NOT NULL PRIMARY KEY,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE INDEX revoked_tokens_expiry ON revoked_tokens (expires_at);
