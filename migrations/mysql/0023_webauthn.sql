-- Security keys: a credential belongs to one person. The hash is that of the
-- site's id and the credential's.

ALTER TABLE mfa_factors ADD COLUMN credential_hash VARBINARY(32) NULL;
ALTER TABLE mfa_factors ADD UNIQUE KEY mfa_factors_credential (credential_hash);
