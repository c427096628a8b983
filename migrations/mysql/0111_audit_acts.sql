-- What people did, until it is in the audit logs of the tenants that they belong
-- to. A sign-in waits for no chain.

CREATE TABLE IF NOT EXISTS audit_acts (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  event TEXT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
