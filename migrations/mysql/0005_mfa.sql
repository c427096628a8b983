-- Second factors of people.

CREATE TABLE IF NOT EXISTS mfa_factors (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  user_id VARCHAR(40) NOT NULL,
  type VARCHAR(16) NOT NULL,
  name VARCHAR(100) NOT NULL,
  sealed BLOB NOT NULL,
  last_step BIGINT NOT NULL,
  confirmed_at BIGINT NULL,
  last_used_at BIGINT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  KEY mfa_factors_user (user_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS recovery_codes (
  user_id VARCHAR(40) NOT NULL,
  code_hash VARBINARY(64) NOT NULL,
  used_at BIGINT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (user_id, code_hash)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Sign-ins whose password was right and whose second factor is awaited.

CREATE TABLE IF NOT EXISTS mfa_challenges (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  token_hash VARBINARY(64) NOT NULL,
  user_id VARCHAR(40) NOT NULL,
  tries INT NOT NULL,
  data BLOB NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  UNIQUE KEY mfa_challenges_token (token_hash),
  KEY mfa_challenges_user (user_id, created_at),
  KEY mfa_challenges_expiry (expires_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
