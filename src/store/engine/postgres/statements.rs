//! The tables and the statements. All versions come from one sequence. The version of a shard's record rises with each
//! write, because a write locks the record's row first.

/// Nodes that start at the same time create the tables one after another.
pub const TABLES: &str = "
BEGIN;
SELECT pg_advisory_xact_lock(hashtext('lockkeeper'));
CREATE SEQUENCE IF NOT EXISTS lk_version;
CREATE TABLE IF NOT EXISTS lk_cluster (single boolean PRIMARY KEY DEFAULT true CHECK (single), record bytea NOT NULL);
CREATE TABLE IF NOT EXISTS lk_node (name text PRIMARY KEY, version bigint NOT NULL, record bytea NOT NULL);
CREATE TABLE IF NOT EXISTS lk_shard (number int PRIMARY KEY, version bigint NOT NULL, record bytea NOT NULL);
CREATE TABLE IF NOT EXISTS lk_pair (shard int, key bytea, value bytea NOT NULL, PRIMARY KEY (shard, key));
COMMIT;
";

/// The settings on which durability depends.
pub const SETTINGS: &str = "
SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
       pg_is_in_recovery()";

pub const FOUND_CLUSTER: &str = "
WITH made AS (INSERT INTO lk_cluster (record) VALUES ($1) ON CONFLICT DO NOTHING RETURNING record)
SELECT record FROM made UNION ALL SELECT record FROM lk_cluster LIMIT 1";

pub const CLUSTER: &str = "SELECT record FROM lk_cluster";

pub const REPLACE_CLUSTER: &str = "UPDATE lk_cluster SET record = $2 WHERE record = $1";

pub const REMOVE_CLUSTER: &str = "DELETE FROM lk_cluster WHERE record = $1";

/// Deletes everything but the nodes if this (in hexadecimal) is the cluster's record. The lock waits for writes in
/// flight, so that the statement after it sees their pairs.
pub fn clear(record: &str) -> String {
    format!(
        "
BEGIN;
LOCK TABLE lk_shard IN EXCLUSIVE MODE;
WITH gone AS (DELETE FROM lk_cluster WHERE record = '\\x{record}'::bytea RETURNING single),
pairs AS (DELETE FROM lk_pair WHERE EXISTS (SELECT FROM gone))
DELETE FROM lk_shard WHERE EXISTS (SELECT FROM gone);
COMMIT;
"
    )
}

pub const ANNOUNCE: &str = "
INSERT INTO lk_node (name, version, record) VALUES ($1, nextval('lk_version'), $2)
ON CONFLICT (name) DO UPDATE SET version = excluded.version, record = excluded.record";

pub const NODES: &str = "SELECT name, version, record FROM lk_node ORDER BY name";

pub const SHARDS: &str = "SELECT number, version, record FROM lk_shard ORDER BY number";

pub const SHARD: &str = "SELECT number, version, record FROM lk_shard WHERE number = $1";

/// The first record of a shard.
pub const FIRST_RECORD: &str = "
INSERT INTO lk_shard (number, version, record) VALUES ($1, nextval('lk_version'), $2)
ON CONFLICT DO NOTHING RETURNING version";

/// Writes the record, and puts and deletes pairs, if the record still has the compared version. A concurrent write
/// waits for the row's lock, and then finds another version.
pub const WRITE: &str = "
WITH owned AS (
    UPDATE lk_shard SET version = nextval('lk_version'), record = $3 WHERE number = $1 AND version = $2
    RETURNING version),
put AS (
    INSERT INTO lk_pair (shard, key, value)
    SELECT $1, key, value FROM unnest($4, $5) AS pair (key, value) WHERE EXISTS (SELECT FROM owned)
    ON CONFLICT (shard, key) DO UPDATE SET value = excluded.value),
deleted AS (
    DELETE FROM lk_pair WHERE shard = $1 AND key = ANY ($6) AND EXISTS (SELECT FROM owned))
SELECT version FROM owned";

/// One statement, so that the result is from one moment. A shard without pairs returns one row without a key.
pub const LOAD: &str = "
SELECT lk_shard.version, lk_pair.key, lk_pair.value FROM lk_shard LEFT JOIN lk_pair ON lk_pair.shard = lk_shard.number
WHERE lk_shard.number = $1";

/// The record and all pairs of a shard, also in one statement. One row has the record; each other row has a key.
pub const COPY: &str = "
SELECT number, version, record, NULL::bytea AS key, NULL::bytea AS value FROM lk_shard WHERE number = $1
UNION ALL SELECT shard, 0, NULL, key, value FROM lk_pair WHERE shard = $1";

pub const SIZE: &str = "SELECT pg_database_size(current_database())";
