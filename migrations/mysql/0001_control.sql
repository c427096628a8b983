-- The control plane's tables. Times are milliseconds since 1970, UTC. A live
-- name is NULL once its object is deleted, so that the name is free again.

CREATE TABLE IF NOT EXISTS tenants (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  name VARCHAR(200) NOT NULL,
  state VARCHAR(16) NOT NULL,
  plan VARCHAR(40) NOT NULL,
  labels TEXT NOT NULL,
  data_key VARBINARY(255) NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS users (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  email VARCHAR(254) NOT NULL,
  name VARCHAR(100) NOT NULL,
  password_hash VARCHAR(255) NOT NULL,
  locale VARCHAR(16) NOT NULL,
  last_sign_in_at BIGINT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  UNIQUE KEY users_email (email)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS members (
  tenant_id VARCHAR(40) NOT NULL,
  user_id VARCHAR(40) NOT NULL,
  role VARCHAR(16) NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, user_id),
  KEY members_user (user_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS service_accounts (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  tenant_id VARCHAR(40) NOT NULL,
  name VARCHAR(100) NOT NULL,
  description VARCHAR(1000) NOT NULL,
  labels TEXT NOT NULL,
  disabled TINYINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  UNIQUE KEY service_accounts_name (tenant_id, name),
  KEY service_accounts_page (tenant_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS clusters (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  name VARCHAR(100) NOT NULL,
  remoting_endpoint VARCHAR(255) NOT NULL,
  grpc_endpoint VARCHAR(255) NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS namespaces (
  id VARCHAR(16) NOT NULL PRIMARY KEY,
  tenant_id VARCHAR(40) NOT NULL,
  cluster_id VARCHAR(40) NOT NULL,
  name VARCHAR(100) NOT NULL,
  live_name VARCHAR(100) NULL,
  description VARCHAR(1000) NOT NULL,
  labels TEXT NOT NULL,
  strict_types TINYINT NOT NULL,
  max_send_tps BIGINT NOT NULL,
  max_receive_tps BIGINT NOT NULL,
  deletion_protection TINYINT NOT NULL,
  phase VARCHAR(16) NOT NULL,
  reason VARCHAR(1000) NOT NULL,
  observed_revision BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  UNIQUE KEY namespaces_live (tenant_id, live_name),
  KEY namespaces_page (tenant_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS api_keys (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  tenant_id VARCHAR(40) NOT NULL,
  owner_id VARCHAR(40) NOT NULL,
  name VARCHAR(100) NOT NULL,
  description VARCHAR(1000) NOT NULL,
  scopes MEDIUMTEXT NOT NULL,
  control_role VARCHAR(16) NOT NULL,
  allowed_cidrs TEXT NOT NULL,
  disabled TINYINT NOT NULL,
  expires_at BIGINT NULL,
  revoked_at BIGINT NULL,
  last_used_at BIGINT NULL,
  replaces_id VARCHAR(40) NOT NULL,
  replaced_by_id VARCHAR(40) NOT NULL,
  hint VARCHAR(8) NOT NULL,
  sealed VARBINARY(255) NOT NULL,
  phase VARCHAR(16) NOT NULL,
  reason VARCHAR(1000) NOT NULL,
  observed_revision BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  KEY api_keys_page (tenant_id, id),
  KEY api_keys_owner (tenant_id, owner_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS quotas (
  tenant_id VARCHAR(40) NOT NULL,
  scope_id VARCHAR(40) NOT NULL,
  name VARCHAR(40) NOT NULL,
  used BIGINT NOT NULL,
  limit_value BIGINT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, scope_id, name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS topics (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  tenant_id VARCHAR(40) NOT NULL,
  namespace_id VARCHAR(16) NOT NULL,
  name VARCHAR(100) NOT NULL,
  live_name VARCHAR(100) NULL,
  type VARCHAR(16) NOT NULL,
  queues INT NOT NULL,
  retention VARCHAR(40) NOT NULL,
  max_message_bytes INT NOT NULL,
  max_send_tps BIGINT NOT NULL,
  perm VARCHAR(4) NOT NULL,
  description VARCHAR(1000) NOT NULL,
  labels TEXT NOT NULL,
  deletion_protection TINYINT NOT NULL,
  phase VARCHAR(16) NOT NULL,
  reason VARCHAR(1000) NOT NULL,
  observed_revision BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  UNIQUE KEY topics_live (namespace_id, live_name),
  KEY topics_page (tenant_id, namespace_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS consumer_groups (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  tenant_id VARCHAR(40) NOT NULL,
  namespace_id VARCHAR(16) NOT NULL,
  name VARCHAR(100) NOT NULL,
  live_name VARCHAR(100) NULL,
  delivery_order VARCHAR(16) NOT NULL,
  consume_enabled TINYINT NOT NULL,
  broadcast TINYINT NOT NULL,
  retry TEXT NOT NULL,
  dead_letter_enabled TINYINT NOT NULL,
  dead_letter_topic VARCHAR(100) NOT NULL,
  max_in_flight INT NOT NULL,
  max_receive_tps BIGINT NOT NULL,
  description VARCHAR(1000) NOT NULL,
  labels TEXT NOT NULL,
  deletion_protection TINYINT NOT NULL,
  phase VARCHAR(16) NOT NULL,
  reason VARCHAR(1000) NOT NULL,
  observed_revision BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  UNIQUE KEY consumer_groups_live (namespace_id, live_name),
  KEY consumer_groups_page (tenant_id, namespace_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- One row, locked by each transaction that changes what brokers must know:
-- its value numbers outbox rows in the order of their commits.
CREATE TABLE IF NOT EXISTS change_counter (
  id INT NOT NULL PRIMARY KEY,
  value BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT IGNORE INTO change_counter (id, value) VALUES (1, 0);

CREATE TABLE IF NOT EXISTS outbox (
  sequence BIGINT NOT NULL PRIMARY KEY,
  tenant VARCHAR(40) NOT NULL,
  namespace_id VARCHAR(16) NOT NULL,
  kind VARCHAR(16) NOT NULL,
  object_id VARCHAR(40) NOT NULL,
  revision BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  KEY outbox_created (created_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS idempotency_keys (
  tenant_id VARCHAR(40) NOT NULL,
  principal VARCHAR(64) NOT NULL,
  idem_key VARCHAR(255) NOT NULL,
  request_hash CHAR(64) NOT NULL,
  state VARCHAR(16) NOT NULL,
  answer MEDIUMBLOB NULL,
  claimed_until BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, principal, idem_key),
  KEY idempotency_keys_expiry (expires_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS mail_codes (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  email VARCHAR(254) NOT NULL,
  purpose VARCHAR(16) NOT NULL,
  code_hash VARBINARY(64) NOT NULL,
  payload TEXT NOT NULL,
  tries INT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  KEY mail_codes_email (email, purpose),
  KEY mail_codes_expiry (expires_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS sessions (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  user_id VARCHAR(40) NOT NULL,
  tenant VARCHAR(40) NOT NULL,
  user_agent VARCHAR(255) NOT NULL,
  address VARCHAR(64) NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  revoked_at BIGINT NULL,
  revoked_reason VARCHAR(40) NOT NULL,
  KEY sessions_user (user_id, id),
  KEY sessions_expiry (expires_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS refresh_tokens (
  token_hash VARBINARY(64) NOT NULL PRIMARY KEY,
  session_id VARCHAR(40) NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  used_at BIGINT NULL,
  KEY refresh_tokens_session (session_id),
  KEY refresh_tokens_expiry (expires_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS signing_keys (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  state VARCHAR(16) NOT NULL,
  public_key VARBINARY(64) NOT NULL,
  sealed VARBINARY(255) NOT NULL,
  created_at BIGINT NOT NULL,
  changed_at BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS audit_events (
  id VARCHAR(40) NOT NULL PRIMARY KEY,
  tenant_id VARCHAR(40) NOT NULL,
  actor_type VARCHAR(16) NOT NULL,
  actor_id VARCHAR(40) NOT NULL,
  api_key_id VARCHAR(40) NOT NULL,
  source_ip VARCHAR(64) NOT NULL,
  action VARCHAR(64) NOT NULL,
  target_type VARCHAR(40) NOT NULL,
  target_id VARCHAR(128) NOT NULL,
  namespace_id VARCHAR(16) NOT NULL,
  decision VARCHAR(16) NOT NULL,
  reason VARCHAR(64) NOT NULL,
  request_id VARCHAR(64) NOT NULL,
  created_at BIGINT NOT NULL,
  KEY audit_events_page (tenant_id, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
