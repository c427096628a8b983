-- When the person behind a session last proved who they are.

ALTER TABLE sessions ADD COLUMN authenticated_at BIGINT NOT NULL DEFAULT 0;
UPDATE sessions SET authenticated_at = created_at;
