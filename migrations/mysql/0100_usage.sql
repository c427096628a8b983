-- Usage. Minutes count from 1970, UTC. A cell's id is a hash of what it belongs
-- to. Minute values are cumulative per source and merged by maximum; longer
-- periods are recomputed from the level below and replaced, never added to.

CREATE TABLE IF NOT EXISTS usage_sources (
  source VARCHAR(64) NOT NULL PRIMARY KEY,
  broker VARCHAR(100) NOT NULL,
  kind VARCHAR(16) NOT NULL,
  dead TINYINT NOT NULL,
  sealed_through BIGINT NOT NULL,
  first_seen_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS usage_minutes (
  minute BIGINT NOT NULL,
  cell_id VARCHAR(32) NOT NULL,
  source VARCHAR(64) NOT NULL,
  tenant_id VARCHAR(40) NOT NULL,
  namespace_id VARCHAR(16) NOT NULL,
  topic VARCHAR(100) NOT NULL,
  consumer_group VARCHAR(100) NOT NULL,
  api_key_id VARCHAR(40) NOT NULL,
  class VARCHAR(16) NOT NULL,
  protocol VARCHAR(16) NOT NULL,
  messages_in BIGINT UNSIGNED NOT NULL,
  messages_out BIGINT UNSIGNED NOT NULL,
  bytes_in BIGINT UNSIGNED NOT NULL,
  bytes_out BIGINT UNSIGNED NOT NULL,
  units4k_in BIGINT UNSIGNED NOT NULL,
  units4k_out BIGINT UNSIGNED NOT NULL,
  units64k_in BIGINT UNSIGNED NOT NULL,
  units64k_out BIGINT UNSIGNED NOT NULL,
  api_calls BIGINT UNSIGNED NOT NULL,
  empty_polls BIGINT UNSIGNED NOT NULL,
  byte_ms_stored BIGINT UNSIGNED NOT NULL,
  connection_ms BIGINT UNSIGNED NOT NULL,
  rejected BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (minute, cell_id, source),
  KEY usage_minutes_tenant (tenant_id, minute)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS usage_periods (
  tenant_id VARCHAR(40) NOT NULL,
  grain VARCHAR(8) NOT NULL,
  start_minute BIGINT NOT NULL,
  cell_id VARCHAR(32) NOT NULL,
  namespace_id VARCHAR(16) NOT NULL,
  topic VARCHAR(100) NOT NULL,
  consumer_group VARCHAR(100) NOT NULL,
  api_key_id VARCHAR(40) NOT NULL,
  class VARCHAR(16) NOT NULL,
  protocol VARCHAR(16) NOT NULL,
  quantities TEXT NOT NULL,
  inputs BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, grain, start_minute, cell_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS usage_dirty (
  grain VARCHAR(8) NOT NULL,
  start_minute BIGINT NOT NULL,
  tenant_id VARCHAR(40) NOT NULL,
  changed BIGINT NOT NULL,
  PRIMARY KEY (grain, start_minute, tenant_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Who pays for a namespace, kept when the namespace itself is gone.
CREATE TABLE IF NOT EXISTS usage_namespaces (
  namespace_id VARCHAR(16) NOT NULL PRIMARY KEY,
  tenant_id VARCHAR(40) NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
