//! A streamed answer of a realm that this node may lose: it ends when another one may have taken over.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::web::Bytes;

use super::front::PerThread;
use super::response::{Body, Response};
use super::state::Realm;

/// Answers of known length are complete already.
pub fn owned_stream(response: Response, realm: &PerThread<Realm>) -> Response {
    match response.body.size() {
        BodySize::None | BodySize::Sized(_) => response,
        BodySize::Stream => {
            let body = OwnedStream { stream: response.body.boxed(), realm: realm.clone() };
            Response { body: Body::Other(BoxBody::new(body)), ..response }
        }
    }
}

struct OwnedStream {
    stream: BoxBody,
    realm: PerThread<Realm>,
}

#[derive(Debug, thiserror::Error)]
#[error("another node may have taken over")]
struct MayBeTaken;

impl MessageBody for OwnedStream {
    type Error = Box<dyn Error>;

    fn size(&self) -> BodySize {
        self.stream.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        match Pin::new(&mut self.stream).poll_next(context) {
            Poll::Ready(Some(_)) if !self.realm.store.is_current() => Poll::Ready(Some(Err(MayBeTaken.into()))),
            polled => polled,
        }
    }
}
