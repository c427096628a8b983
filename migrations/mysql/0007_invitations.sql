-- Invitations of people to tenants. Only the hash of the token is kept; the live
-- address is NULL once the invitation was accepted or has expired, so that the
-- address can be invited again.

CREATE TABLE IF NOT EXISTS invitations (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  tenant_id VARCHAR(40) NOT NULL,
  email VARCHAR(254) NOT NULL,
  live_email VARCHAR(254) NULL,
  role VARCHAR(16) NOT NULL,
  locale VARCHAR(16) NOT NULL,
  invited_by VARCHAR(40) NOT NULL,
  token_hash VARBINARY(32) NOT NULL,
  sent_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  accepted_at BIGINT NULL,
  accepted_by VARCHAR(40) NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  UNIQUE KEY invitations_live (tenant_id, live_email),
  UNIQUE KEY invitations_token (token_hash),
  KEY invitations_page (tenant_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
