-- The control plane's tables. Times are milliseconds since 1970, UTC. A live
-- name is NULL once its object is deleted, so that the name is free again.

CREATE TABLE IF NOT EXISTS tenants (
  id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  state TEXT NOT NULL,
  plan TEXT NOT NULL,
  labels TEXT NOT NULL,
  data_key BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS users (
  id TEXT NOT NULL PRIMARY KEY,
  email TEXT NOT NULL,
  name TEXT NOT NULL,
  password_hash TEXT NOT NULL,
  locale TEXT NOT NULL,
  last_sign_in_at INTEGER NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS users_email ON users (email);

CREATE TABLE IF NOT EXISTS members (
  tenant_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  role TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, user_id)
) STRICT;
CREATE INDEX IF NOT EXISTS members_user ON members (user_id);

CREATE TABLE IF NOT EXISTS service_accounts (
  id TEXT NOT NULL PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  labels TEXT NOT NULL,
  disabled INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS service_accounts_name ON service_accounts (tenant_id, name);
CREATE INDEX IF NOT EXISTS service_accounts_page ON service_accounts (tenant_id, id);

CREATE TABLE IF NOT EXISTS clusters (
  id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  remoting_endpoint TEXT NOT NULL,
  grpc_endpoint TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS namespaces (
  id TEXT NOT NULL PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  cluster_id TEXT NOT NULL,
  name TEXT NOT NULL,
  live_name TEXT NULL,
  description TEXT NOT NULL,
  labels TEXT NOT NULL,
  strict_types INTEGER NOT NULL,
  max_send_tps INTEGER NOT NULL,
  max_receive_tps INTEGER NOT NULL,
  deletion_protection INTEGER NOT NULL,
  phase TEXT NOT NULL,
  reason TEXT NOT NULL,
  observed_revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS namespaces_live ON namespaces (tenant_id, live_name);
CREATE INDEX IF NOT EXISTS namespaces_page ON namespaces (tenant_id, id);

CREATE TABLE IF NOT EXISTS api_keys (
  id TEXT NOT NULL PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  owner_id TEXT NOT NULL,
  name TEXT NOT NULL,
  description TEXT NOT NULL,
  scopes TEXT NOT NULL,
  control_role TEXT NOT NULL,
  allowed_cidrs TEXT NOT NULL,
  disabled INTEGER NOT NULL,
  expires_at INTEGER NULL,
  revoked_at INTEGER NULL,
  last_used_at INTEGER NULL,
  replaces_id TEXT NOT NULL,
  replaced_by_id TEXT NOT NULL,
  hint TEXT NOT NULL,
  sealed BLOB NOT NULL,
  phase TEXT NOT NULL,
  reason TEXT NOT NULL,
  observed_revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS api_keys_page ON api_keys (tenant_id, id);
CREATE INDEX IF NOT EXISTS api_keys_owner ON api_keys (tenant_id, owner_id);

CREATE TABLE IF NOT EXISTS quotas (
  tenant_id TEXT NOT NULL,
  scope_id TEXT NOT NULL,
  name TEXT NOT NULL,
  used INTEGER NOT NULL,
  limit_value INTEGER NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, scope_id, name)
) STRICT;

CREATE TABLE IF NOT EXISTS topics (
  id TEXT NOT NULL PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  namespace_id TEXT NOT NULL,
  name TEXT NOT NULL,
  live_name TEXT NULL,
  type TEXT NOT NULL,
  queues INTEGER NOT NULL,
  retention TEXT NOT NULL,
  max_message_bytes INTEGER NOT NULL,
  max_send_tps INTEGER NOT NULL,
  perm TEXT NOT NULL,
  description TEXT NOT NULL,
  labels TEXT NOT NULL,
  deletion_protection INTEGER NOT NULL,
  phase TEXT NOT NULL,
  reason TEXT NOT NULL,
  observed_revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS topics_live ON topics (namespace_id, live_name);
CREATE INDEX IF NOT EXISTS topics_page ON topics (tenant_id, namespace_id, id);

CREATE TABLE IF NOT EXISTS consumer_groups (
  id TEXT NOT NULL PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  namespace_id TEXT NOT NULL,
  name TEXT NOT NULL,
  live_name TEXT NULL,
  delivery_order TEXT NOT NULL,
  consume_enabled INTEGER NOT NULL,
  broadcast INTEGER NOT NULL,
  retry TEXT NOT NULL,
  dead_letter_enabled INTEGER NOT NULL,
  dead_letter_topic TEXT NOT NULL,
  max_in_flight INTEGER NOT NULL,
  max_receive_tps INTEGER NOT NULL,
  description TEXT NOT NULL,
  labels TEXT NOT NULL,
  deletion_protection INTEGER NOT NULL,
  phase TEXT NOT NULL,
  reason TEXT NOT NULL,
  observed_revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS consumer_groups_live ON consumer_groups (namespace_id, live_name);
CREATE INDEX IF NOT EXISTS consumer_groups_page ON consumer_groups (tenant_id, namespace_id, id);

-- One row, locked by each transaction that changes what brokers must know:
-- its value numbers outbox rows in the order of their commits.
CREATE TABLE IF NOT EXISTS change_counter (
  id INTEGER NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT;

INSERT OR IGNORE INTO change_counter (id, value) VALUES (1, 0);

CREATE TABLE IF NOT EXISTS outbox (
  sequence INTEGER NOT NULL PRIMARY KEY,
  tenant TEXT NOT NULL,
  namespace_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  object_id TEXT NOT NULL,
  revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS outbox_created ON outbox (created_at);

CREATE TABLE IF NOT EXISTS idempotency_keys (
  tenant_id TEXT NOT NULL,
  principal TEXT NOT NULL,
  idem_key TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  state TEXT NOT NULL,
  answer BLOB NULL,
  claimed_until INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, principal, idem_key)
) STRICT;
CREATE INDEX IF NOT EXISTS idempotency_keys_expiry ON idempotency_keys (expires_at);

CREATE TABLE IF NOT EXISTS mail_codes (
  id TEXT NOT NULL PRIMARY KEY,
  email TEXT NOT NULL,
  purpose TEXT NOT NULL,
  code_hash BLOB NOT NULL,
  payload TEXT NOT NULL,
  tries INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS mail_codes_email ON mail_codes (email, purpose);
CREATE INDEX IF NOT EXISTS mail_codes_expiry ON mail_codes (expires_at);

CREATE TABLE IF NOT EXISTS sessions (
  id TEXT NOT NULL PRIMARY KEY,
  user_id TEXT NOT NULL,
  tenant TEXT NOT NULL,
  user_agent TEXT NOT NULL,
  address TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  last_used_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  revoked_at INTEGER NULL,
  revoked_reason TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS sessions_user ON sessions (user_id, id);
CREATE INDEX IF NOT EXISTS sessions_expiry ON sessions (expires_at);

CREATE TABLE IF NOT EXISTS refresh_tokens (
  token_hash BLOB NOT NULL PRIMARY KEY,
  session_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  used_at INTEGER NULL
) STRICT;
CREATE INDEX IF NOT EXISTS refresh_tokens_session ON refresh_tokens (session_id);
CREATE INDEX IF NOT EXISTS refresh_tokens_expiry ON refresh_tokens (expires_at);

CREATE TABLE IF NOT EXISTS signing_keys (
  id TEXT NOT NULL PRIMARY KEY,
  state TEXT NOT NULL,
  public_key BLOB NOT NULL,
  sealed BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS audit_events (
  id TEXT NOT NULL PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  actor_type TEXT NOT NULL,
  actor_id TEXT NOT NULL,
  api_key_id TEXT NOT NULL,
  source_ip TEXT NOT NULL,
  action TEXT NOT NULL,
  target_type TEXT NOT NULL,
  target_id TEXT NOT NULL,
  namespace_id TEXT NOT NULL,
  decision TEXT NOT NULL,
  reason TEXT NOT NULL,
  request_id TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS audit_events_page ON audit_events (tenant_id, id);
