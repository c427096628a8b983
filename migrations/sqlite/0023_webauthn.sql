-- Security keys: a credential belongs to one person. The hash is that of the
-- site's id and the credential's.

ALTER TABLE mfa_factors ADD COLUMN credential_hash BLOB NULL;
CREATE UNIQUE INDEX IF NOT EXISTS mfa_factors_credential ON mfa_factors (credential_hash);
