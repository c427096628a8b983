-- Fingerprints of the object that an audited write changed.

ALTER TABLE audit_events ADD COLUMN before_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE audit_events ADD COLUMN after_hash TEXT NOT NULL DEFAULT '';
