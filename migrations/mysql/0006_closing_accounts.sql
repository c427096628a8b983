-- When the account of a person who asked to close it is erased; NULL for all
-- others.

ALTER TABLE users ADD COLUMN erase_at BIGINT NULL;
ALTER TABLE users ADD KEY users_erase (erase_at);
