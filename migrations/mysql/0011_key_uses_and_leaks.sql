-- By what a secret is found again, why a key was revoked, what it was used for
-- last, and reports of leaked secrets that are not looked up yet.

ALTER TABLE api_keys ADD COLUMN secret_fingerprint VARBINARY(32) NULL;
ALTER TABLE api_keys ADD COLUMN revoked_reason VARCHAR(16) NOT NULL DEFAULT '';
ALTER TABLE api_keys ADD COLUMN last_used_address VARCHAR(64) NOT NULL DEFAULT '';
ALTER TABLE api_keys ADD COLUMN last_used_operation VARCHAR(64) NOT NULL DEFAULT '';
ALTER TABLE api_keys ADD COLUMN last_used_topic VARCHAR(255) NOT NULL DEFAULT '';
CREATE INDEX api_keys_fingerprint ON api_keys (secret_fingerprint);

CREATE TABLE IF NOT EXISTS leak_reports (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  fingerprint VARBINARY(32) NOT NULL,
  address VARCHAR(64) NOT NULL,
  created_at BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
