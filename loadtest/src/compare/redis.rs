//! The lock in Redis: `SET NX` with the owner's name and `INCR` of the fencing token in one round trip, and a release
//! that deletes the key only if the owner still has it. Both are scripts, as Redis's documentation recommends.

use std::net::SocketAddr;

use tokio::net::TcpStream;

use crate::compare::peer::{Claim, Client, Fault, Peer};
use crate::compare::plan::name_of;
use crate::compare::resp::{Reply, RespConnection, RespError};

const CLAIM: &[u8] =
    b"if redis.call('SET', KEYS[1], ARGV[1], 'NX') then return redis.call('INCR', KEYS[2]) end return 0";
const RELEASE: &[u8] = b"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

#[derive(Clone)]
pub struct Redis {
    address: SocketAddr,
    claim: Vec<u8>,
    release: Vec<u8>,
}

pub struct RedisClient {
    connection: RespConnection<TcpStream>,
    scripts: Redis,
    owner: Vec<u8>,
    lock: Vec<u8>,
    fence: Vec<u8>,
}

impl Redis {
    pub async fn prepare(address: SocketAddr) -> Result<Self, Fault> {
        let mut connection = open(address).await?;
        let mut load = async |script| match connection.ask(&[b"SCRIPT", b"LOAD", script]).await? {
            Reply::Text(hash) => Ok(hash),
            other => Err(RespError::Unexpected(other)),
        };
        Ok(Self { address, claim: load(CLAIM).await?, release: load(RELEASE).await? })
    }
}

impl Peer for Redis {
    type Client = RedisClient;

    async fn connect(&self, number: u32) -> Result<RedisClient, Fault> {
        Ok(RedisClient {
            connection: open(self.address).await?,
            scripts: self.clone(),
            owner: format!("client-{number}").into_bytes(),
            lock: Vec::new(),
            fence: Vec::new(),
        })
    }
}

impl Client for RedisClient {
    async fn claim(&mut self, name: u32) -> Result<Claim, Fault> {
        let name = name_of(name);
        self.fence = format!("{name}:fence").into_bytes();
        self.lock = name.into_bytes();
        let words = [b"EVALSHA", &self.scripts.claim[..], b"2", &self.lock, &self.fence, &self.owner];
        match self.connection.ask(&words).await? {
            Reply::Integer(0) => Ok(Claim::Busy),
            Reply::Integer(token) if token > 0 => Ok(Claim::Granted(Some(token.unsigned_abs()))),
            other => Err(RespError::Unexpected(other).into()),
        }
    }

    async fn release(&mut self) -> Result<(), Fault> {
        let words = [b"EVALSHA", &self.scripts.release[..], b"1", &self.lock, &self.owner];
        match self.connection.ask(&words).await? {
            Reply::Integer(1) => Ok(()),
            Reply::Integer(_) => Err(Fault::NotHeld),
            other => Err(RespError::Unexpected(other).into()),
        }
    }
}

async fn open(address: SocketAddr) -> Result<RespConnection<TcpStream>, RespError> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(RespConnection::over(stream))
}
