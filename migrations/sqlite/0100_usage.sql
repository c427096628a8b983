-- Usage. Minutes count from 1970, UTC. A cell's id is a hash of what it belongs
-- to. Minute values are cumulative per source and merged by maximum; longer
-- periods are recomputed from the level below and replaced, never added to.

CREATE TABLE IF NOT EXISTS usage_sources (
  source TEXT NOT NULL PRIMARY KEY,
  broker TEXT NOT NULL,
  kind TEXT NOT NULL,
  dead INTEGER NOT NULL,
  sealed_through INTEGER NOT NULL,
  first_seen_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS usage_minutes (
  minute INTEGER NOT NULL,
  cell_id TEXT NOT NULL,
  source TEXT NOT NULL,
  tenant_id TEXT NOT NULL,
  namespace_id TEXT NOT NULL,
  topic TEXT NOT NULL,
  consumer_group TEXT NOT NULL,
  api_key_id TEXT NOT NULL,
  class TEXT NOT NULL,
  protocol TEXT NOT NULL,
  messages_in INTEGER NOT NULL,
  messages_out INTEGER NOT NULL,
  bytes_in INTEGER NOT NULL,
  bytes_out INTEGER NOT NULL,
  units4k_in INTEGER NOT NULL,
  units4k_out INTEGER NOT NULL,
  units64k_in INTEGER NOT NULL,
  units64k_out INTEGER NOT NULL,
  api_calls INTEGER NOT NULL,
  empty_polls INTEGER NOT NULL,
  byte_ms_stored INTEGER NOT NULL,
  connection_ms INTEGER NOT NULL,
  rejected INTEGER NOT NULL,
  PRIMARY KEY (minute, cell_id, source)
) STRICT;

CREATE INDEX IF NOT EXISTS usage_minutes_tenant ON usage_minutes (tenant_id, minute);

CREATE TABLE IF NOT EXISTS usage_periods (
  tenant_id TEXT NOT NULL,
  grain TEXT NOT NULL,
  start_minute INTEGER NOT NULL,
  cell_id TEXT NOT NULL,
  namespace_id TEXT NOT NULL,
  topic TEXT NOT NULL,
  consumer_group TEXT NOT NULL,
  api_key_id TEXT NOT NULL,
  class TEXT NOT NULL,
  protocol TEXT NOT NULL,
  quantities TEXT NOT NULL,
  inputs INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, grain, start_minute, cell_id)
) STRICT;

CREATE TABLE IF NOT EXISTS usage_dirty (
  grain TEXT NOT NULL,
  start_minute INTEGER NOT NULL,
  tenant_id TEXT NOT NULL,
  changed INTEGER NOT NULL,
  PRIMARY KEY (grain, start_minute, tenant_id)
) STRICT;

-- Who pays for a namespace, kept when the namespace itself is gone.
CREATE TABLE IF NOT EXISTS usage_namespaces (
  namespace_id TEXT NOT NULL PRIMARY KEY,
  tenant_id TEXT NOT NULL
) STRICT;
