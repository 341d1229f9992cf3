//! The engine over PostgreSQL: a table of shards and a table of pairs; each transaction is one statement.
//!
//! Replication and failover are the operator's job. `probe` checks the server's required settings.
//!
//! `statements` has the tables and the statements, `tls` encrypted connections. This file has the engine itself, and
//! decides which errors are refusals and which leave the outcome unknown.

#[cfg(test)]
pub mod fixture;
mod statements;
#[cfg(test)]
mod tests;
mod tls;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{TryStreamExt, pin_mut};
use tokio::sync::Mutex;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, NoTls, Row};

use self::statements::{
    ANNOUNCE, CLUSTER, COPY, FIRST_RECORD, FOUND_CLUSTER, LOAD, NODES, REMOVE_CLUSTER, REPLACE_CLUSTER, SETTINGS,
    SHARD, SHARDS, SIZE, TABLES, WRITE, clear,
};
use self::tls::Tls;
use crate::batch::Changes;
use crate::contract::StoreError;
use crate::engine::connection::{Driver, EngineTls};
use crate::engine::contract::{Engine, EngineError, Limits, Pairs, Room};
use crate::engine::membership::{ClusterRecord, NodeRecord};
use crate::engine::shard::{Shard, Version, resolve};

/// The owner of a shard needs an answer within four seconds, enough for two attempts.
const ANSWER_WITHIN: Duration = Duration::from_millis(1500);
/// For creating the tables, which other nodes may be doing too.
const TABLES_WITHIN: Duration = Duration::from_secs(30);
/// For loading a shard, which may have a few hundred megabytes.
const LOAD_WITHIN: Duration = Duration::from_secs(60);
/// The same group size as with etcd; PostgreSQL itself accepts a gigabyte.
const LIMITS: Limits = Limits { changes: 4095, bytes: 4 * 1024 * 1024 };

pub struct PostgresSettings {
    /// `postgresql://user:password@host:5432/database`
    pub url: String,
    /// If set, all connections are encrypted.
    pub tls: Option<EngineTls>,
    /// The maximum size of the database on disk.
    pub quota_bytes: u64,
}

pub struct Postgres {
    config: Config,
    tls: Option<Tls>,
    quota_bytes: u64,
    driver: Driver,
    /// The connection, until it fails.
    client: Mutex<Option<Arc<Client>>>,
}

const AUTHORITY_MISSING: &str = "the URL of PostgreSQL asks for TLS, which needs the authority that has signed the server's \
                                 certificate: set cluster.engine_ca (those of the system are often in \
                                 /etc/ssl/certs/ca-certificates.crt)";

type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

impl Postgres {
    /// Connects on the first request. Fails if the URL is invalid.
    pub fn new(settings: &PostgresSettings) -> Result<Postgres, EngineError> {
        let refused = |reason: String| EngineError::Refused(StoreError::Engine(reason));
        // The crate's error does not quote the URL, which may contain a password.
        let mut config: Config = modes_of_ours(&settings.url)
            .parse()
            .map_err(|error| refused(format!("the URL of PostgreSQL: {}", with_cause(&error))))?;
        let tls = match &settings.tls {
            Some(given) => Some(Tls::new(given).map_err(|why| refused(format!("TLS to PostgreSQL: {why}")))?),
            None if config.get_ssl_mode() == SslMode::Require => return Err(refused(AUTHORITY_MISSING.to_owned())),
            None => None,
        };
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        config.application_name("lockkeeper").connect_timeout(ANSWER_WITHIN).tcp_user_timeout(ANSWER_WITHIN);
        let driver =
            Driver::start("postgres-io").map_err(|error| refused(format!("cannot start a thread: {error}")))?;
        Ok(Postgres { config, tls, quota_bytes: settings.quota_bytes, driver, client: Mutex::new(None) })
    }

    async fn client(&self) -> Result<Arc<Client>, EngineError> {
        let mut known = self.client.lock().await;
        if let Some(client) = known.as_ref().filter(|client| !client.is_closed()) {
            return Ok(client.clone());
        }
        let (config, tls) = (self.config.clone(), self.tls.clone());
        let connecting = self.driver.spawn(async move {
            // The task ends with the client, or with an error that the client receives too.
            Ok(match tls {
                Some(tls) => {
                    let (client, connection) = config.connect(tls).await?;
                    tokio::spawn(connection);
                    client
                }
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    tokio::spawn(connection);
                    client
                }
            })
        });
        let away = |error: &dyn Error| EngineError::Away(format!("cannot connect to PostgreSQL: {error}"));
        let connected = tokio::time::timeout(ANSWER_WITHIN, connecting).await.map_err(|late| away(&late))?;
        let connected = connected.map_err(|ended| away(&ended))?;
        let client = Arc::new(connected.map_err(|error| meaning(&error))?);
        *known = Some(client.clone());
        Ok(client)
    }

    /// Awaits the answer for at most `limit`. A connection that exceeds it is given up, though its request may still
    /// take effect.
    async fn within<T>(
        &self,
        limit: Duration,
        asking: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, EngineError> {
        match tokio::time::timeout(limit, asking).await {
            Ok(answer) => answer.map_err(|error| meaning(&error)),
            Err(_) => {
                *self.client.lock().await = None;
                Err(EngineError::Away(format!("PostgreSQL has not answered within {limit:?}")))
            }
        }
    }

    async fn ask(&self, statement: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, EngineError> {
        let client = self.client().await?;
        self.within(ANSWER_WITHIN, client.query_typed(statement, parameters)).await
    }

    /// Executes all statements of a transaction.
    async fn execute(&self, statements: &str, within: Duration) -> Result<(), EngineError> {
        let client = self.client().await?;
        let done = self.within(within, client.batch_execute(statements)).await;
        if done.is_err() {
            // Closes the connection, which would keep the transaction open.
            *self.client.lock().await = None;
        }
        done
    }
}

/// Replaces libpq's modes that request a certificate check: here certificates are always checked.
fn modes_of_ours(url: &str) -> String {
    url.replace("sslmode=verify-full", "sslmode=require").replace("sslmode=verify-ca", "sslmode=require")
}

fn with_cause(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

fn column<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, place: usize) -> Result<T, EngineError> {
    row.try_get(place).map_err(|error| unreadable(&error))
}

fn version(row: &Row, place: usize) -> Result<Version, EngineError> {
    let version: i64 = column(row, place)?;
    Ok(Version(version.unsigned_abs()))
}

fn signed(version: Version) -> i64 {
    i64::try_from(version.0).unwrap_or(i64::MAX)
}

fn shard(row: &Row) -> Result<Shard, EngineError> {
    let number: i32 = column(row, 0)?;
    let number = u16::try_from(number).map_err(|error| unreadable(&error))?;
    Shard::decode(number, version(row, 1)?, column(row, 2)?).map_err(|error| unreadable(&error))
}

fn node(row: &Row) -> Result<NodeRecord, EngineError> {
    NodeRecord::decode(column(row, 0)?, version(row, 1)?, column(row, 2)?).map_err(|error| unreadable(&error))
}

fn unreadable(error: &dyn Error) -> EngineError {
    EngineError::Refused(StoreError::Read(error.to_string()))
}

impl Engine for Postgres {
    /// Also creates the tables.
    async fn probe(&self) -> Result<(), EngineError> {
        let settings = self.ask(SETTINGS, &[]).await?;
        let settings = settings.first().ok_or_else(|| EngineError::Away("no settings were answered".to_owned()))?;
        let wrong =
            wrong_setting(column(settings, 0)?, column(settings, 1)?, column(settings, 2)?, column(settings, 3)?);
        if let Some(wrong) = wrong {
            return Err(EngineError::Refused(StoreError::Engine(wrong)));
        }
        self.execute(TABLES, TABLES_WITHIN).await
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    async fn found(&self, cluster: &ClusterRecord) -> Result<ClusterRecord, EngineError> {
        let encoded = cluster.encode();
        let rows = self.ask(FOUND_CLUSTER, &[(&encoded, Type::BYTEA)]).await?;
        // If empty, another node has created the record since this statement began.
        let row = rows.first().ok_or_else(|| EngineError::Away("another node makes the cluster".to_owned()))?;
        ClusterRecord::decode(column(row, 0)?).map_err(|error| unreadable(&error))
    }

    async fn cluster(&self) -> Result<Option<ClusterRecord>, EngineError> {
        let rows = self.ask(CLUSTER, &[]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        ClusterRecord::decode(column(row, 0)?).map(Some).map_err(|error| unreadable(&error))
    }

    async fn replace(&self, seen: &ClusterRecord, next: Option<&ClusterRecord>) -> Result<bool, EngineError> {
        let encoded = seen.encode();
        match next.map(ClusterRecord::encode) {
            Some(next) => self.ask(REPLACE_CLUSTER, &[(&encoded, Type::BYTEA), (&next, Type::BYTEA)]).await?,
            None => self.ask(REMOVE_CLUSTER, &[(&encoded, Type::BYTEA)]).await?,
        };
        Ok(self.cluster().await? == next.copied())
    }

    async fn clear(&self, seen: &ClusterRecord) -> Result<bool, EngineError> {
        let digits: String = seen.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        self.execute(&clear(&digits), LOAD_WITHIN).await?;
        Ok(self.cluster().await?.is_none())
    }

    async fn announce(&self, node: &NodeRecord) -> Result<(), EngineError> {
        let encoded = node.encode();
        self.ask(ANNOUNCE, &[(&node.node, Type::TEXT), (&encoded, Type::BYTEA)]).await.map(drop)
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, EngineError> {
        self.ask(NODES, &[]).await?.iter().map(node).collect()
    }

    async fn shards(&self) -> Result<Vec<Shard>, EngineError> {
        self.ask(SHARDS, &[]).await?.iter().map(shard).collect()
    }

    async fn write(
        &self,
        compared: Version,
        record: &Shard,
        changes: &Changes,
    ) -> Result<Option<Version>, EngineError> {
        let (number, encoded) = (i32::from(record.number), record.encode());
        let written = if compared == Version(0) {
            self.ask(FIRST_RECORD, &[(&number, Type::INT4), (&encoded, Type::BYTEA)]).await?
        } else {
            let put = |(key, value)| Some((key, Option::as_ref(value)?));
            let (keys, values): (Vec<&Vec<u8>>, Vec<&Vec<u8>>) = changes.iter().filter_map(put).unzip();
            let deleted: Vec<_> = changes.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| key).collect();
            let compared = signed(compared);
            let parameters: [Parameter<'_>; 6] = [
                (&number, Type::INT4),
                (&compared, Type::INT8),
                (&encoded, Type::BYTEA),
                (&keys, Type::BYTEA_ARRAY),
                (&values, Type::BYTEA_ARRAY),
                (&deleted, Type::BYTEA_ARRAY),
            ];
            self.ask(WRITE, &parameters).await?
        };
        if let Some(row) = written.first() {
            return Ok(Some(version(row, 0)?));
        }
        let found = self.ask(SHARD, &[(&number, Type::INT4)]).await?;
        let found = found.first().map(shard).transpose()?;
        Ok(resolve(record, found.as_ref()))
    }

    /// PostgreSQL keeps only the newest version.
    async fn load(&self, number: u16, at: Version) -> Result<Pairs, EngineError> {
        let client = self.client().await?;
        let number = i32::from(number);
        let loading = async {
            let rows = client.query_typed_raw(LOAD, [(number, Type::INT4)]).await?;
            pin_mut!(rows);
            let (mut pairs, mut found) = (Pairs::new(), Version(0));
            while let Some(row) = rows.try_next().await? {
                found = Version(row.try_get::<_, i64>(0)?.unsigned_abs());
                if let Some(key) = row.try_get(1)? {
                    pairs.insert(key, row.try_get(2)?);
                }
            }
            Ok((found, pairs))
        };
        let (found, pairs) = self.within(LOAD_WITHIN, loading).await?;
        if found != at {
            return Err(EngineError::Refused(StoreError::Engine("this version is forgotten".to_owned())));
        }
        Ok(pairs)
    }

    async fn copy(&self, number: u16) -> Result<Option<(Shard, Pairs)>, EngineError> {
        let client = self.client().await?;
        let copying = async {
            let rows = client.query_typed_raw(COPY, [(i32::from(number), Type::INT4)]).await?;
            pin_mut!(rows);
            let (mut pairs, mut record) = (Pairs::new(), None);
            while let Some(row) = rows.try_next().await? {
                match row.try_get(3)? {
                    Some(key) => _ = pairs.insert(key, row.try_get(4)?),
                    None => record = Some(row),
                }
            }
            Ok((record, pairs))
        };
        let (record, pairs) = self.within(LOAD_WITHIN, copying).await?;
        Ok(record.as_ref().map(shard).transpose()?.map(|shard| (shard, pairs)))
    }

    async fn room(&self) -> Result<Room, EngineError> {
        let rows = self.ask(SIZE, &[]).await?;
        let used: i64 = rows.first().map_or(Ok(0), |row| column(row, 0))?;
        Ok(Room { used_bytes: used.unsigned_abs(), quota_bytes: self.quota_bytes, is_exhausted: false })
    }

    /// PostgreSQL frees old versions automatically.
    async fn forget(&self, _: Version) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Why the server is rejected: it may lose commits, or accepts no writes.
fn wrong_setting(fsync: &str, full_pages: &str, synchronous: &str, in_recovery: bool) -> Option<String> {
    if in_recovery {
        return Some("PostgreSQL is a standby and takes no writes; name its primary".to_owned());
    }
    for (name, value) in [("fsync", fsync), ("full_page_writes", full_pages)] {
        if value != "on" {
            return Some(format!("PostgreSQL has {name} = {value} and may lose locks in a crash; set {name} = on"));
        }
    }
    // `remote_write` and `local` lose commits in a failover, `off` in a crash.
    let safe = ["on", "remote_apply"].contains(&synchronous);
    (!safe).then(|| {
        format!(
            "PostgreSQL has synchronous_commit = {synchronous} and may lose locks in a crash or a failover; set \
             synchronous_commit = on"
        )
    })
}

#[cfg(test)]
mod settings_tests {
    use super::wrong_setting;

    #[test]
    fn a_server_that_may_lose_commits_is_refused_with_the_setting_to_change() {
        for (fsync, full_pages, synchronous, in_recovery, said) in [
            ("on", "on", "on", false, None),
            ("on", "on", "remote_apply", false, None),
            ("off", "on", "on", false, Some("set fsync = on")),
            ("on", "off", "on", false, Some("set full_page_writes = on")),
            ("on", "on", "off", false, Some("set synchronous_commit = on")),
            ("on", "on", "local", false, Some("set synchronous_commit = on")),
            ("on", "on", "remote_write", false, Some("set synchronous_commit = on")),
            ("on", "on", "on", true, Some("name its primary")),
        ] {
            let wrong = wrong_setting(fsync, full_pages, synchronous, in_recovery);
            assert_eq!(wrong.is_some(), said.is_some(), "{wrong:?}");
            assert!(wrong.unwrap_or_default().contains(said.unwrap_or_default()));
        }
    }
}

/// `Refused` only if PostgreSQL answered with an error that it would repeat. All other requests may have taken effect
/// or may succeed later, and are retried.
pub fn meaning(error: &tokio_postgres::Error) -> EngineError {
    match error.code() {
        Some(state) => meaning_of(state, &explained(error)),
        None => EngineError::Away(explained(error)),
    }
}

fn meaning_of(state: &SqlState, text: &str) -> EngineError {
    /// Error classes: connection, transaction rollback, resources, operator intervention, system error.
    const PASSING: [&str; 5] = ["08", "40", "53", "57", "58"];
    if *state == SqlState::DISK_FULL {
        return EngineError::Refused(StoreError::EngineFull);
    }
    // The server became a standby, or a lock was not acquired in time.
    let passing = [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::LOCK_NOT_AVAILABLE].contains(state);
    if passing || PASSING.iter().any(|class| state.code().starts_with(class)) {
        EngineError::Away(text.to_owned())
    } else {
        EngineError::Refused(StoreError::Engine(text.to_owned()))
    }
}

/// The message with its causes: the crate's message alone only names the operation.
fn explained(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(answer), _) => answer.to_string(),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}

#[cfg(test)]
mod errors_tests {
    use super::*;

    #[test]
    fn only_what_would_be_answered_again_is_a_refusal() {
        for (state, refused) in [
            (SqlState::UNDEFINED_TABLE, true),
            (SqlState::INSUFFICIENT_PRIVILEGE, true),
            (SqlState::INVALID_PASSWORD, true),
            (SqlState::T_R_SERIALIZATION_FAILURE, false),
            (SqlState::T_R_DEADLOCK_DETECTED, false),
            (SqlState::TOO_MANY_CONNECTIONS, false),
            (SqlState::ADMIN_SHUTDOWN, false),
            (SqlState::CANNOT_CONNECT_NOW, false),
            (SqlState::QUERY_CANCELED, false),
            (SqlState::READ_ONLY_SQL_TRANSACTION, false),
            (SqlState::CONNECTION_FAILURE, false),
            (SqlState::IO_ERROR, false),
        ] {
            let is_refused = matches!(meaning_of(&state, "text"), EngineError::Refused(StoreError::Engine(_)));
            assert_eq!(is_refused, refused, "{state:?}");
        }
        let full = meaning_of(&SqlState::DISK_FULL, "text");
        assert!(matches!(full, EngineError::Refused(StoreError::EngineFull)));
    }
}
