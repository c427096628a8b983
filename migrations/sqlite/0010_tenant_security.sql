-- What a tenant demands of its people and keys: a second factor, its own
-- identity provider, a greatest age of API keys (milliseconds; 0: none).

ALTER TABLE tenants ADD COLUMN mfa_required INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN sso_required INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN max_key_age_ms INTEGER NOT NULL DEFAULT 0;
