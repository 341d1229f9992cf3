//! Owns gRPC over one HTTP/2 connection, as far as unary calls need it, and the messages of etcd that are sent here. They
//! are written by hand: a few fields of a few messages, which have not changed since version 3.0, do not need a compiler in
//! the build. Names and numbers are those of etcd's `rpc.proto` and `v3lock.proto`; what is not named is not sent, and
//! skipped when received.

use std::io;
use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::SendRequest;
use http::uri::Uri;
use http::{HeaderMap, Request};
use prost::{Message, Oneof};
use tokio::net::TcpStream;

/// A byte that says whether it is compressed, and the length.
const PREFIX_BYTES: usize = 5;
/// What an etcd server sends at most by itself; no answer here comes near it.
const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum GrpcError {
    #[error("cannot connect: {0}")]
    Connect(#[from] io::Error),
    #[error("HTTP/2 broke: {0}")]
    Http2(#[from] h2::Error),
    #[error("the address {0} cannot stand in a request")]
    Address(SocketAddr),
    #[error("answered HTTP {0}")]
    Http(u16),
    #[error("gRPC status {0}: {1}")]
    Status(String, String),
    #[error("the answer is not one whole uncompressed message")]
    Framing,
    #[error("the answer cannot be read: {0}")]
    Message(#[from] prost::DecodeError),
}

/// One connection with one call at a time.
pub struct Channel {
    requests: SendRequest<Bytes>,
    address: SocketAddr,
}

/// A method's address, made once and not for each call.
#[derive(Clone)]
pub struct Method(Uri);

impl Channel {
    pub async fn open(address: SocketAddr) -> Result<Self, GrpcError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (requests, connection) = h2::client::handshake(stream).await?;
        // It ends when the channel is dropped; what breaks it, the calls tell.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { requests, address })
    }

    pub fn method(&self, path: &str) -> Result<Method, GrpcError> {
        let uri = format!("http://{}{path}", self.address).parse();
        uri.map(Method).map_err(|_| GrpcError::Address(self.address))
    }

    pub async fn call<A: Message + Default>(
        &mut self,
        method: &Method,
        message: &impl Message,
    ) -> Result<A, GrpcError> {
        let mut request = Request::new(());
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = method.0.clone();
        let headers = request.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/grpc"));
        headers.insert(http::header::TE, http::HeaderValue::from_static("trailers"));
        // Back-pressure is kept per handle, so the same one has to be ready and send.
        std::future::poll_fn(|context| self.requests.poll_ready(context)).await?;
        let (response, mut body) = self.requests.send_request(request, false)?;
        body.send_data(frame(message), true)?;
        let response = response.await?;
        if response.status() != http::StatusCode::OK {
            return Err(GrpcError::Http(response.status().as_u16()));
        }
        if response.headers().contains_key("grpc-status") {
            check_status(response.headers())?;
        }
        let mut body = response.into_body();
        let received = receive(&mut body).await?;
        check_status(&body.trailers().await?.unwrap_or_default())?;
        Ok(A::decode(unframe(&received)?)?)
    }
}

async fn receive(body: &mut RecvStream) -> Result<Bytes, GrpcError> {
    let mut whole: Option<BytesMut> = None;
    let mut first = Bytes::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        // An answer nearly always comes in one piece, which then is not copied.
        match &mut whole {
            None if first.is_empty() => first = data,
            None => whole = Some([first.as_ref(), data.as_ref()].concat().as_slice().into()),
            Some(whole) if whole.len() + data.len() > MAX_MESSAGE_BYTES => return Err(GrpcError::Framing),
            Some(whole) => whole.extend_from_slice(&data),
        }
    }
    Ok(whole.map_or(first, BytesMut::freeze))
}

fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + length);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(length).expect("messages here are a few hundred bytes"));
    message.encode(&mut framed).expect("the buffer has room for it");
    framed.freeze()
}

/// Exactly one message, uncompressed, as a unary call has it.
fn unframe(received: &[u8]) -> Result<&[u8], GrpcError> {
    let Some(([compressed, a, b, c, d], message)) = received.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(GrpcError::Framing);
    };
    let length = u32::from_be_bytes([*a, *b, *c, *d]);
    if *compressed != 0 || usize::try_from(length) != Ok(message.len()) {
        return Err(GrpcError::Framing);
    }
    Ok(message)
}

fn check_status(headers: &HeaderMap) -> Result<(), GrpcError> {
    let text = |name| headers.get(name).map_or("", |value| value.to_str().unwrap_or("")).to_owned();
    match text("grpc-status").as_str() {
        "0" => Ok(()),
        "" => Err(GrpcError::Status("none".to_owned(), "the answer ended without trailers".to_owned())),
        status => Err(GrpcError::Status(status.to_owned(), text("grpc-message"))),
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
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
}

/// Of one key, or of all up to `range_end`. What is left out means the newest revision, agreed on by a majority.
#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
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
pub struct UnlockRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct UnlockResponse {}

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
    /// The id of the member that leads, as this one knows it.
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

/// A question or an answer without anything in it that matters here.
#[derive(Clone, PartialEq, Message)]
pub struct Nothing {}

#[cfg(test)]
mod grpc_tests {
    use crate::wire::etcd::LeaseGrantRequest;

    use super::*;

    #[test]
    fn a_message_is_framed_by_its_length_and_comes_back_whole() {
        let framed = frame(&LeaseGrantRequest { ttl: 60 });
        assert_eq!(framed.as_ref(), [0, 0, 0, 0, 2, 0x08, 60]);
        let message = unframe(&framed).expect("one message");
        assert_eq!(LeaseGrantRequest::decode(message).expect("a message").ttl, 60);
        assert_eq!(unframe(&[0, 0, 0, 0, 0]).expect("an empty message"), b"");
    }

    #[test]
    fn what_is_not_one_whole_uncompressed_message_is_refused() {
        for bytes in [&b""[..], &[0, 0, 0, 0], &[0, 0, 0, 0, 2, 1], &[0, 0, 0, 0, 1, 1, 1], &[1, 0, 0, 0, 1, 1]] {
            assert!(matches!(unframe(bytes), Err(GrpcError::Framing)), "{bytes:?}");
        }
    }

    #[test]
    fn only_status_zero_is_success() {
        let with = |status: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-status", http::HeaderValue::from_static(status));
            headers.insert("grpc-message", http::HeaderValue::from_static("lease not found"));
            headers
        };
        assert!(check_status(&with("0")).is_ok());
        let error = check_status(&with("5")).expect_err("not found");
        assert_eq!(error.to_string(), "gRPC status 5: lease not found");
        assert!(check_status(&HeaderMap::new()).is_err());
    }
}

#[cfg(test)]
mod etcd_messages_tests {
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
        assert_eq!(
            response,
            TxnResponse { header: Some(ResponseHeader { member_id: 0, revision: 300 }), succeeded: true }
        );
    }
}
