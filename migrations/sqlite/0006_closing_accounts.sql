-- When the account of a person who asked to close it is erased; NULL for all
-- others.

ALTER TABLE users ADD COLUMN erase_at INTEGER NULL;
CREATE INDEX IF NOT EXISTS users_erase ON users (erase_at);
