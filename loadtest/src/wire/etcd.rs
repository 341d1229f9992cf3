//! A client for the requests that the load test makes to an etcd member: locks, status, compaction, defragmentation,
//! alarms; and reads of the shard records that the nodes of a cluster keep there.
//!
//! The messages are written by hand: a few fields of a few messages that have not changed since version 3.0 do not
//! justify a protobuf compiler in the build. Names and numbers are those of etcd's `rpc.proto` and `v3lock.proto`;
//! fields not declared here are not sent, and skipped when received.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::{Message, Oneof};
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// The timeout: the member's disk may be busy. Without a leader, etcd answers with an error much sooner.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    #[error("etcd at {0} does not answer")]
    Silent(SocketAddr),
    #[error("etcd has no leader")]
    NoLeader,
    #[error("etcd: cannot connect: {0}")]
    Connect(#[from] tonic::transport::Error),
    #[error("etcd: gRPC status {}: {}", .0.code() as i32, .0.message())]
    Status(#[from] tonic::Status),
    #[error("etcd: an answer has no revision")]
    NoRevision,
}

impl EtcdError {
    pub fn is_out_of_room(&self) -> bool {
        matches!(self, Self::Status(status) if status.message().contains("database space exceeded"))
    }

    /// Whether etcd itself refused, and the connection is still usable.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Status(status) if status.source().is_none())
    }
}

pub struct EtcdClient {
    grpc: Grpc<Channel>,
    address: SocketAddr,
}

impl EtcdClient {
    pub async fn connect(address: SocketAddr) -> Result<Self, EtcdError> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
        let opened = tokio::time::timeout(ANSWER_WITHIN, endpoint.connect()).await;
        Ok(Self { grpc: Grpc::new(opened.map_err(|_| EtcdError::Silent(address))??), address })
    }

    /// Sends a request without a timeout.
    pub async fn call<Q, A>(&mut self, path: &'static str, question: Q) -> Result<A, EtcdError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.grpc.ready().await?;
        let codec = ProstCodec::<Q, A>::default();
        Ok(self.grpc.unary(Request::new(question), PathAndQuery::from_static(path), codec).await?.into_inner())
    }

    pub async fn status(&mut self) -> Result<StatusResponse, EtcdError> {
        self.ask("/etcdserverpb.Maintenance/Status", Nothing {}).await
    }

    pub async fn newest_revision(&mut self) -> Result<i64, EtcdError> {
        let answer = self.range(b"\0nothing").await?;
        Ok(answer.header.map_or(0, |header| header.revision))
    }

    pub async fn put(&mut self, key: &[u8], value: Vec<u8>) -> Result<(), EtcdError> {
        self.done("/etcdserverpb.KV/Put", PutRequest { key: key.to_vec(), value }).await
    }

    pub async fn delete(&mut self, prefix: &[u8]) -> Result<(), EtcdError> {
        self.done("/etcdserverpb.KV/DeleteRange", Keys::all(prefix)).await
    }

    /// Discards all history before this revision.
    pub async fn compact(&mut self, revision: i64) -> Result<(), EtcdError> {
        self.done("/etcdserverpb.KV/Compact", CompactionRequest { revision }).await
    }

    /// Defragments only this member.
    pub async fn defragment(&mut self) -> Result<(), EtcdError> {
        self.done("/etcdserverpb.Maintenance/Defragment", Nothing {}).await
    }

    /// Lets all members accept writes again.
    pub async fn disarm(&mut self) -> Result<(), EtcdError> {
        const ALARM: &str = "/etcdserverpb.Maintenance/Alarm";
        let raised = AlarmRequest { action: ALARM_GET, member_id: 0, alarm: ALARM_NOSPACE };
        let raised: AlarmResponse = self.ask(ALARM, raised).await?;
        for AlarmMember { member_id, alarm } in raised.alarms {
            self.done(ALARM, AlarmRequest { action: ALARM_DEACTIVATE, member_id, alarm }).await?;
        }
        Ok(())
    }

    /// The records of all shards, by number, read through a majority.
    pub async fn shard_records(&mut self) -> Result<BTreeMap<u16, ShardRecord>, EtcdError> {
        let pairs = self.range(SHARDS).await?.pairs;
        let number = |key: &[u8]| std::str::from_utf8(key.strip_prefix(SHARDS)?).ok()?.parse().ok();
        Ok(pairs.iter().filter_map(|pair| Some((number(&pair.key)?, ShardRecord::decode(&pair.value)?))).collect())
    }

    async fn range(&mut self, prefix: &[u8]) -> Result<RangeResponse, EtcdError> {
        self.ask("/etcdserverpb.KV/Range", Keys::all(prefix)).await
    }

    async fn done(&mut self, path: &'static str, question: impl Message + 'static) -> Result<(), EtcdError> {
        self.ask(path, question).await.map(|Nothing {}| ())
    }

    async fn ask<A>(&mut self, path: &'static str, question: impl Message + 'static) -> Result<A, EtcdError>
    where
        A: Message + Default + 'static,
    {
        let silent = EtcdError::Silent(self.address);
        tokio::time::timeout(ANSWER_WITHIN, self.call(path, question)).await.unwrap_or(Err(silent))
    }
}

/// The prefix of the shard records; the number of the shard follows, in five digits.
const SHARDS: &[u8] = b"lk/shard/";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRecord {
    pub epoch: u64,
    /// The node's name; none if its last owner has left.
    pub owner: Option<String>,
}

impl ShardRecord {
    /// Decodes a record: it begins with the version and the epoch; the owner's name follows.
    fn decode(record: &[u8]) -> Option<Self> {
        let ((version, epoch, owner), _) = postcard::take_from_bytes::<(u8, u64, Option<String>)>(record).ok()?;
        (version == 1).then_some(Self { epoch, owner })
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct ResponseHeader {
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
}

/// `result` stays zero, which is EQUAL.
#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    #[prost(int32, tag = "2")]
    pub target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(oneof = "CompareWith", tags = "5")]
    pub with: Option<CompareWith>,
}

pub const COMPARE_CREATE_REVISION: i32 = 1;

#[derive(Clone, PartialEq, Oneof)]
pub enum CompareWith {
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
}

#[derive(Clone, PartialEq, Message)]
pub struct RequestOp {
    #[prost(oneof = "Op", tags = "2, 3")]
    pub op: Option<Op>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Op {
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(Keys),
}

#[derive(Clone, PartialEq, Message)]
pub struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// A `RangeRequest` or `DeleteRangeRequest` for one key or all up to `range_end`, or an `UnlockRequest` for one key.
/// The omitted fields default to the newest revision, agreed on by a majority.
#[derive(Clone, PartialEq, Message)]
pub struct Keys {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
}

impl Keys {
    pub fn one(key: Vec<u8>) -> Self {
        Self { key, range_end: Vec::new() }
    }

    /// All keys with this prefix; no prefix here ends with the highest byte.
    fn all(prefix: &[u8]) -> Self {
        let mut range_end = prefix.to_vec();
        if let Some(last) = range_end.last_mut() {
            *last = last.saturating_add(1);
        }
        Self { key: prefix.to_vec(), range_end }
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub pairs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    pub ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    pub id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct LockRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub name: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct LockResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(int64, tag = "3")]
    pub db_size: i64,
    /// The id of the leader, as known to this member.
    #[prost(uint64, tag = "4")]
    pub leader: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct AlarmRequest {
    #[prost(int32, tag = "1")]
    pub action: i32,
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    #[prost(int32, tag = "3")]
    pub alarm: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct AlarmResponse {
    #[prost(message, repeated, tag = "2")]
    pub alarms: Vec<AlarmMember>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AlarmMember {
    #[prost(uint64, tag = "1")]
    pub member_id: u64,
    #[prost(int32, tag = "2")]
    pub alarm: i32,
}

pub const ALARM_GET: i32 = 0;
pub const ALARM_DEACTIVATE: i32 = 2;
pub const ALARM_NOSPACE: i32 = 1;

/// A request or answer without any field that matters here.
#[derive(Clone, PartialEq, Message)]
pub struct Nothing {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_has_the_bytes_that_etcd_expects() {
        let compare =
            Compare { target: COMPARE_CREATE_REVISION, key: b"k".to_vec(), with: Some(CompareWith::CreateRevision(0)) };
        let put = RequestOp { op: Some(Op::Put(PutRequest { key: b"k".to_vec(), value: b"v".to_vec() })) };
        let request = TxnRequest { compare: vec![compare], success: vec![put] };
        let expected =
            [&[0x0a, 7, 0x10, 1, 0x1a, 1, b'k', 0x28, 0][..], &[0x12, 8, 0x12, 6, 0x0a, 1, b'k', 0x12, 1, b'v']]
                .concat();
        assert_eq!(request.encode_to_vec(), expected);
    }

    #[test]
    fn fields_that_are_not_named_here_are_skipped() {
        // A header with cluster_id 9 and revision 300, succeeded, and an empty response at the end.
        let bytes = [0x0a, 5, 0x08, 9, 0x18, 0xac, 0x02, 0x10, 1, 0x1a, 0];
        let response = TxnResponse::decode(&bytes[..]).expect("well-formed");
        assert_eq!(
            response,
            TxnResponse { header: Some(ResponseHeader { member_id: 0, revision: 300 }), succeeded: true }
        );
    }

    #[test]
    fn epoch_and_owner_are_read_from_a_record() {
        let owned = ShardRecord { epoch: 300, owner: Some("n1".to_owned()) };
        assert_eq!(ShardRecord::decode(&[1, 0xac, 0x02, 1, 2, b'n', b'1', 9, 9]), Some(owned));
        assert_eq!(ShardRecord::decode(&[1, 7, 0, 9]), Some(ShardRecord { epoch: 7, owner: None }));
        assert_eq!(ShardRecord::decode(&[2, 7, 0]), None);
        assert_eq!(ShardRecord::decode(&[1, 7, 1, 9, b'n']), None);
        assert_eq!(ShardRecord::decode(b""), None);
    }

    /// Answers a status request, reports that it is out of space, and then disconnects.
    async fn member(listener: tokio::net::TcpListener) {
        let (stream, _) = listener.accept().await.expect("a client");
        let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let response = http::Response::builder().header("content-type", "application/grpc");
            match request.uri().path() {
                "/etcdserverpb.Maintenance/Status" => {
                    let status = StatusResponse { header: None, db_size: 7, leader: 1 }.encode_to_vec();
                    let framed = [&[0, 0, 0, 0, status.len() as u8][..], &status].concat();
                    let mut body = respond.send_response(response.body(()).expect("a head"), false).expect("sent");
                    body.send_data(framed.into(), false).expect("sent");
                    let ok = http::HeaderMap::from_iter([("grpc-status", "0")].map(header));
                    body.send_trailers(ok).expect("sent");
                }
                "/etcdserverpb.KV/Put" => {
                    let full = response.header("grpc-status", "8").header("grpc-message", "database space exceeded");
                    respond.send_response(full.body(()).expect("a head"), true).expect("sent");
                }
                _ => return,
            }
        }
    }

    fn header((name, value): (&'static str, &'static str)) -> (http::HeaderName, http::HeaderValue) {
        (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
    }

    #[tokio::test]
    async fn an_answer_a_refusal_and_a_broken_connection_are_told_apart() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(member(listener));
        let mut etcd = EtcdClient::connect(address).await.expect("it listens");
        let status = etcd.status().await.expect("an answer");
        assert_eq!((status.db_size, status.leader), (7, 1));
        let full = etcd.put(b"k", vec![1]).await.expect_err("no room");
        assert!(full.is_out_of_room() && full.is_refusal(), "{full}");
        assert_eq!(full.to_string(), "etcd: gRPC status 8: database space exceeded");
        let broken = etcd.compact(1).await.expect_err("it hung up");
        assert!(!broken.is_refusal(), "{broken:?}");
    }
}
