//! Owns the messages of etcd that are sent here, by hand: a few fields of a few messages, which have not changed since
//! version 3.0, do not need a compiler in the build. Names and numbers are those of etcd's `rpc.proto` and
//! `v3lock.proto`; what is not named is not sent, and skipped when received.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub struct ResponseHeader {
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

/// `result` is left at its zero, which is EQUAL.
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
    DeleteRange(DeleteRangeRequest),
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
}

/// Of one key. What is left out means the newest revision, agreed on by a majority.
#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub pairs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
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
pub struct UnlockRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct UnlockResponse {}

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
        // Header with cluster_id 9 and revision 300, succeeded, and an empty response behind it.
        let bytes = [0x0a, 5, 0x08, 9, 0x18, 0xac, 0x02, 0x10, 1, 0x1a, 0];
        let response = TxnResponse::decode(&bytes[..]).expect("well-formed");
        assert_eq!(response, TxnResponse { header: Some(ResponseHeader { revision: 300 }), succeeded: true });
    }
}
