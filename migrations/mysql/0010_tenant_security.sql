-- What a tenant demands of its people and keys: a second factor, its own
-- identity provider, a greatest age of API keys (milliseconds; 0: none).

ALTER TABLE tenants ADD COLUMN mfa_required TINYINT(1) NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN sso_required TINYINT(1) NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN max_key_age_ms BIGINT NOT NULL DEFAULT 0;
