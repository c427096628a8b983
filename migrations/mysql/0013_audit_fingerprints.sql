-- Fingerprints of the object that an audited write changed.

ALTER TABLE audit_events ADD COLUMN before_hash CHAR(64) NOT NULL DEFAULT '';
ALTER TABLE audit_events ADD COLUMN after_hash CHAR(64) NOT NULL DEFAULT '';
