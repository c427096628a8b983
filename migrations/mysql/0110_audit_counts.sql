-- Events that count several of the same: how many, and when the first was. 0
-- for all others.

ALTER TABLE audit_events ADD COLUMN count BIGINT NOT NULL DEFAULT 0;
ALTER TABLE audit_events ADD COLUMN first_at BIGINT NOT NULL DEFAULT 0;
