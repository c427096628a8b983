-- Second factors of people.

CREATE TABLE IF NOT EXISTS mfa_factors (
  id TEXT NOT NULL PRIMARY KEY,
  user_id TEXT NOT NULL,
  type TEXT NOT NULL,
  name TEXT NOT NULL,
  sealed BLOB NOT NULL,
  last_step INTEGER NOT NULL,
  confirmed_at INTEGER NULL,
  last_used_at INTEGER NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS mfa_factors_user ON mfa_factors (user_id, id);

CREATE TABLE IF NOT EXISTS recovery_codes (
  user_id TEXT NOT NULL,
  code_hash BLOB NOT NULL,
  used_at INTEGER NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (user_id, code_hash)
) STRICT;

-- Sign-ins whose password was right and whose second factor is awaited.

CREATE TABLE IF NOT EXISTS mfa_challenges (
  id TEXT NOT NULL PRIMARY KEY,
  token_hash BLOB NOT NULL,
  user_id TEXT NOT NULL,
  tries INTEGER NOT NULL,
  data BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS mfa_challenges_token ON mfa_challenges (token_hash);
CREATE INDEX IF NOT EXISTS mfa_challenges_user ON mfa_challenges (user_id, created_at);
CREATE INDEX IF NOT EXISTS mfa_challenges_expiry ON mfa_challenges (expires_at);
