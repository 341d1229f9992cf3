//! The lock in PostgreSQL: one row per name. A claim is one conditional `UPDATE … RETURNING`, prepared and in a
//! separate transaction; so is a release.

use std::net::SocketAddr;

use tokio_postgres::{Config, NoTls, Statement};

use crate::compare::peer::{Claim, Client, Fault, Peer};
use crate::compare::plan::name_of;

const TABLE: &str = "CREATE TABLE locks (name text PRIMARY KEY, owner text, fencing bigint NOT NULL DEFAULT 0)";
const CLAIM: &str =
    "UPDATE locks SET owner = $2, fencing = fencing + 1 WHERE name = $1 AND owner IS NULL RETURNING fencing";
const RELEASE: &str = "UPDATE locks SET owner = NULL WHERE name = $1 AND owner = $2";

#[derive(Clone)]
pub struct Postgres {
    config: Config,
}

pub struct PostgresClient {
    connection: tokio_postgres::Client,
    claim: Statement,
    release: Statement,
    owner: String,
    name: String,
}

impl Postgres {
    pub async fn prepare(address: SocketAddr, user: &str, password: &str, names: u32) -> Result<Self, Fault> {
        let mut config = Config::new();
        config.host(address.ip().to_string()).port(address.port()).user(user).password(password).dbname("postgres");
        let connection = open(&config).await?;
        connection.batch_execute(TABLE).await?;
        let names: Vec<String> = (1..=names).map(name_of).collect();
        connection.execute("INSERT INTO locks (name) SELECT unnest($1::text[])", &[&names]).await?;
        Ok(Self { config })
    }
}

impl Peer for Postgres {
    type Client = PostgresClient;

    async fn connect(&self, number: u32) -> Result<PostgresClient, Fault> {
        let connection = open(&self.config).await?;
        let claim = connection.prepare(CLAIM).await?;
        let release = connection.prepare(RELEASE).await?;
        Ok(PostgresClient { connection, claim, release, owner: format!("client-{number}"), name: String::new() })
    }
}

impl Client for PostgresClient {
    async fn claim(&mut self, name: u32) -> Result<Claim, Fault> {
        self.name = name_of(name);
        match self.connection.query_opt(&self.claim, &[&self.name, &self.owner]).await? {
            Some(row) => Ok(Claim::Granted(Some(row.try_get::<_, i64>(0)?.unsigned_abs()))),
            None => Ok(Claim::Busy),
        }
    }

    async fn release(&mut self) -> Result<(), Fault> {
        match self.connection.execute(&self.release, &[&self.name, &self.owner]).await? {
            1 => Ok(()),
            _ => Err(Fault::NotHeld),
        }
    }
}

async fn open(config: &Config) -> Result<tokio_postgres::Client, Fault> {
    let (client, connection) = config.connect(NoTls).await?;
    // The task ends when the client is dropped. Connection errors also surface in the client's own calls.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}
