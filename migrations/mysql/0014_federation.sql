-- Identity providers of tenants, the domains that they speak for, sign-ins on
-- their way, who is who, and at which provider a session began. A live domain
-- is NULL until it is verified: one provider holds it.

CREATE TABLE IF NOT EXISTS identity_providers (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  tenant_id VARCHAR(40) NOT NULL,
  name VARCHAR(100) NOT NULL,
  issuer VARCHAR(300) NOT NULL,
  client_id VARCHAR(255) NOT NULL,
  sealed VARBINARY(2000) NULL,
  auto_enrol_role VARCHAR(16) NOT NULL,
  enabled TINYINT NOT NULL,
  owner_approved TINYINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  UNIQUE KEY identity_providers_name (tenant_id, name),
  KEY identity_providers_page (tenant_id, id),
  KEY identity_providers_client (client_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS identity_domains (
  provider_id VARCHAR(40) NOT NULL,
  domain VARCHAR(253) NOT NULL,
  tenant_id VARCHAR(40) NOT NULL,
  challenge VARCHAR(100) NOT NULL,
  verified_at BIGINT NULL,
  live_domain VARCHAR(253) NULL,
  PRIMARY KEY (provider_id, domain),
  UNIQUE KEY identity_domains_live (live_domain)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS user_identities (
  provider_id VARCHAR(40) NOT NULL,
  issuer VARCHAR(300) NOT NULL,
  subject VARCHAR(255) NOT NULL,
  tenant_id VARCHAR(40) NOT NULL,
  user_id VARCHAR(40) NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (provider_id, issuer, subject),
  KEY user_identities_user (provider_id, user_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS sign_in_attempts (
  state_hash BINARY(32) NOT NULL PRIMARY KEY,
  sealed VARBINARY(4000) NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  KEY sign_in_attempts_expiry (expires_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Tokens of other issuers that may be used once.
CREATE TABLE IF NOT EXISTS seen_tokens (
  digest BINARY(32) NOT NULL PRIMARY KEY,
  expires_at BIGINT NOT NULL,
  KEY seen_tokens_expiry (expires_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

ALTER TABLE sessions ADD COLUMN provider_id VARCHAR(40) NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN provider_subject VARCHAR(255) NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN provider_session VARCHAR(255) NOT NULL DEFAULT '';
ALTER TABLE sessions ADD KEY sessions_provider (provider_id, provider_subject);
