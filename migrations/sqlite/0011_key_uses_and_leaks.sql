-- By what a secret is found again, why a key was revoked, what it was used for
-- last, and reports of leaked secrets that are not looked up yet.

ALTER TABLE api_keys ADD COLUMN secret_fingerprint BLOB NULL;
ALTER TABLE api_keys ADD COLUMN revoked_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE api_keys ADD COLUMN last_used_address TEXT NOT NULL DEFAULT '';
ALTER TABLE api_keys ADD COLUMN last_used_operation TEXT NOT NULL DEFAULT '';
ALTER TABLE api_keys ADD COLUMN last_used_topic TEXT NOT NULL DEFAULT '';
CREATE INDEX api_keys_fingerprint ON api_keys (secret_fingerprint);

CREATE TABLE IF NOT EXISTS leak_reports (
  id TEXT NOT NULL PRIMARY KEY,
  fingerprint BLOB NOT NULL,
  address TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
