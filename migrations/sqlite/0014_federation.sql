-- Identity providers of tenants, the domains that they speak for, sign-ins on
-- their way, who is who, and at which provider a session began. A live domain
-- is NULL until it is verified: one provider holds it.

CREATE TABLE IF NOT EXISTS identity_providers (
  id TEXT NOT NULL PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  issuer TEXT NOT NULL,
  client_id TEXT NOT NULL,
  sealed BLOB NULL,
  auto_enrol_role TEXT NOT NULL,
  enabled INTEGER NOT NULL,
  owner_approved INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS identity_providers_name ON identity_providers (tenant_id, name);
CREATE INDEX IF NOT EXISTS identity_providers_page ON identity_providers (tenant_id, id);
CREATE INDEX IF NOT EXISTS identity_providers_client ON identity_providers (client_id);

CREATE TABLE IF NOT EXISTS identity_domains (
  provider_id TEXT NOT NULL,
  domain TEXT NOT NULL,
  tenant_id TEXT NOT NULL,
  challenge TEXT NOT NULL,
  verified_at INTEGER NULL,
  live_domain TEXT NULL,
  PRIMARY KEY (provider_id, domain)
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS identity_domains_live ON identity_domains (live_domain);

CREATE TABLE IF NOT EXISTS user_identities (
  provider_id TEXT NOT NULL,
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  tenant_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (provider_id, issuer, subject)
) STRICT;
CREATE INDEX IF NOT EXISTS user_identities_user ON user_identities (provider_id, user_id);

CREATE TABLE IF NOT EXISTS sign_in_attempts (
  state_hash BLOB NOT NULL PRIMARY KEY,
  sealed BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS sign_in_attempts_expiry ON sign_in_attempts (expires_at);

-- Tokens of other issuers that may be used once.
CREATE TABLE IF NOT EXISTS seen_tokens (
  digest BLOB NOT NULL PRIMARY KEY,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS seen_tokens_expiry ON seen_tokens (expires_at);

ALTER TABLE sessions ADD COLUMN provider_id TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN provider_subject TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN provider_session TEXT NOT NULL DEFAULT '';
CREATE INDEX IF NOT EXISTS sessions_provider ON sessions (provider_id, provider_subject);
