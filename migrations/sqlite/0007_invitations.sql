-- Invitations of people to tenants. Only the hash of the token is kept; the live
-- address is NULL once the invitation was accepted or has expired, so that the
-- address can be invited again.

CREATE TABLE IF NOT EXISTS invitations (
  id TEXT NOT NULL PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  email TEXT NOT NULL,
  live_email TEXT NULL,
  role TEXT NOT NULL,
  locale TEXT NOT NULL,
  invited_by TEXT NOT NULL,
  token_hash BLOB NOT NULL,
  sent_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  accepted_at INTEGER NULL,
  accepted_by TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS invitations_live ON invitations (tenant_id, live_email);
CREATE UNIQUE INDEX IF NOT EXISTS invitations_token ON invitations (token_hash);
CREATE INDEX IF NOT EXISTS invitations_page ON invitations (tenant_id, id);
