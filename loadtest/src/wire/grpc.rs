//! Owns gRPC over one HTTP/2 connection, as far as unary calls need it: a framed message out, a framed message and a
//! status in the trailers back.

use std::io;
use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::SendRequest;
use http::uri::Uri;
use http::{HeaderMap, Request};
use prost::Message;
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

#[cfg(test)]
mod tests {
    use crate::wire::etcd_messages::LeaseGrantRequest;

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
