//! The etcd messages used here, with the names and numbers of its `rpc.proto` and `kv.proto`, and the meaning of its
//! errors. Undeclared fields are not sent, and skipped when received.

use prost::{Message, Oneof};
use tonic::{Code, Status};

use crate::contract::StoreError;
use crate::engine::EngineError;

pub const RANGE: &str = "/etcdserverpb.KV/Range";
pub const TXN: &str = "/etcdserverpb.KV/Txn";
pub const COMPACT: &str = "/etcdserverpb.KV/Compact";
pub const STATUS: &str = "/etcdserverpb.Maintenance/Status";
pub const ALARM: &str = "/etcdserverpb.Maintenance/Alarm";
pub const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

#[derive(Clone, PartialEq, Message)]
pub struct ResponseHeader {
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
}

/// A linearizable read, because `serializable` is not declared.
#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub limit: i64,
    #[prost(int64, tag = "4")]
    pub revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// If empty, the range is one key.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
}

/// `result` stays zero, which is EQUAL.
#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    #[prost(int32, tag = "2")]
    pub target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    #[prost(oneof = "CompareWith", tags = "6, 7")]
    pub with: Option<CompareWith>,
}

pub const COMPARE_MOD_REVISION: i32 = 2;
pub const COMPARE_VALUE: i32 = 3;

#[derive(Clone, PartialEq, Oneof)]
pub enum CompareWith {
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    #[prost(bytes, tag = "7")]
    Value(Vec<u8>),
}

#[derive(Clone, PartialEq, Message)]
pub struct RequestOp {
    #[prost(oneof = "Op", tags = "1, 2, 3")]
    pub op: Option<Op>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Op {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

impl From<Op> for RequestOp {
    fn from(op: Op) -> RequestOp {
        RequestOp { op: Some(op) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

/// Only the answers to reads are used.
#[derive(Clone, PartialEq, Message)]
pub struct ResponseOp {
    #[prost(message, optional, tag = "1")]
    pub range: Option<RangeResponse>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

/// An answer whose contents are not used.
#[derive(Clone, PartialEq, Message)]
pub struct Done {}

#[derive(Clone, PartialEq, Message)]
pub struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    #[prost(int64, tag = "3")]
    pub db_size: i64,
}

/// Queries all alarms of all members: the undeclared action is zero, which is GET.
#[derive(Clone, PartialEq, Message)]
pub struct AlarmRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct AlarmResponse {
    #[prost(message, repeated, tag = "2")]
    pub alarms: Vec<AlarmMember>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AlarmMember {
    #[prost(int32, tag = "2")]
    pub alarm: i32,
}

pub const ALARM_NOSPACE: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub password: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub token: String,
}

/// `Refused` only if etcd certainly changed nothing and would refuse the same request again. All other requests may
/// have taken effect, and are retried.
pub fn meaning(status: &Status) -> EngineError {
    let text = status.message();
    match status.code() {
        Code::ResourceExhausted if text.contains("database space exceeded") => {
            EngineError::Refused(StoreError::EngineFull)
        }
        Code::ResourceExhausted if text.contains("too many requests") => EngineError::Away(text.to_owned()),
        _ if wants_new_token(status) => EngineError::Away(text.to_owned()),
        Code::ResourceExhausted
        | Code::InvalidArgument
        | Code::OutOfRange
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Unimplemented
        | Code::NotFound
        | Code::AlreadyExists => EngineError::Refused(StoreError::Engine(text.to_owned())),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss
        | Code::Unauthenticated => EngineError::Away(explained(status)),
    }
}

/// Whether the token is unknown to this member, or older than the last change of users.
pub fn wants_new_token(status: &Status) -> bool {
    status.code() == Code::Unauthenticated || status.message().contains("revision of auth store is old")
}

/// Whether the request lacked a token.
pub fn wants_token(status: &Status) -> bool {
    status.message().contains("user name is empty")
}

pub fn is_auth_off(status: &Status) -> bool {
    status.code() == Code::FailedPrecondition && status.message().contains("authentication is not enabled")
}

pub fn is_forgotten(status: &Status) -> bool {
    status.code() == Code::OutOfRange && is_forgotten_text(status.message())
}

pub fn is_forgotten_text(message: &str) -> bool {
    message.contains("compacted")
}

/// The message with its causes. For a failed connection, the message alone is useless.
fn explained(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(&format!(": {more}"));
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certain_is_a_refusal() {
        for (code, text, refused) in [
            (Code::InvalidArgument, "etcdserver: too many operations in txn request", true),
            (Code::InvalidArgument, "etcdserver: request is too large", true),
            (Code::InvalidArgument, "etcdserver: user name is empty", true),
            (Code::PermissionDenied, "etcdserver: permission denied", true),
            (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted", true),
            (Code::ResourceExhausted, "grpc: received message larger than max (5 vs. 4)", true),
            (Code::ResourceExhausted, "etcdserver: too many requests", false),
            (Code::InvalidArgument, "etcdserver: revision of auth store is old", false),
            (Code::Unauthenticated, "etcdserver: invalid auth token", false),
            (Code::Unavailable, "etcdserver: request timed out", false),
            (Code::Unavailable, "etcdserver: leader changed", false),
            (Code::Unknown, "transport error", false),
            (Code::DeadlineExceeded, "no answer in time", false),
            (Code::Cancelled, "the operation was cancelled", false),
        ] {
            match meaning(&Status::new(code, text)) {
                EngineError::Refused(error) => assert!(refused && error.to_string().contains(text), "{error}"),
                EngineError::Away(reason) => assert!(!refused && reason == text, "{reason}"),
                EngineError::Deposed => panic!("{text}"),
            }
        }
        let full = Status::new(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded");
        assert!(matches!(meaning(&full), EngineError::Refused(StoreError::EngineFull)));
    }
}
