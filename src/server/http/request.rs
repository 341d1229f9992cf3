//! Additional data of a request: its id, which is in the response and in the log, and its origin.

use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use actix_web::http::header::HeaderName;

use ambient::entropy;
use cluster::peers::Via;
use domain::IdText;
use http1::{Headers, Request};

/// Where a request came from.
pub trait RequestOrigin {
    /// The node that has forwarded the request, if any.
    fn via(&self) -> Option<&Via>;

    /// Marks the request as forwarded by another node.
    fn passed_on(self, via: Via) -> Self;

    /// The address of the client.
    fn client_address(&self) -> Option<IpAddr>;
}

impl RequestOrigin for Request {
    fn via(&self) -> Option<&Via> {
        self.extension()
    }

    fn passed_on(self, via: Via) -> Self {
        self.with_extension(via)
    }

    fn client_address(&self) -> Option<IpAddr> {
        match self.via() {
            Some(via) => via.client,
            None => Some(self.connection()?.socket.peer?.ip()),
        }
    }
}

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LENGTH_MAX: usize = 128;

/// The client's own id if it is safe to log, else a new one.
#[derive(Clone)]
pub struct RequestId(Arc<str>);

impl RequestId {
    pub fn of(headers: &Headers) -> Self {
        let is_safe =
            |id: &&str| (1..=LENGTH_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
        Self(match headers.text(&REQUEST_ID).filter(is_safe) {
            Some(given) => given.into(),
            None => (&*IdText::new("req_", &entropy::id_seed())).into(),
        })
    }

    pub fn shared(&self) -> Arc<str> {
        self.0.clone()
    }
}

impl Deref for RequestId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_the_client_is_kept_if_it_is_safe() {
        let of = |given| RequestId::of(&[(REQUEST_ID, given)].into_iter().collect());
        assert_eq!(&*of("mine"), "mine");
        for unsafe_id in ["", "a b", "\u{e4}", &"x".repeat(LENGTH_MAX + 1)] {
            assert!(of(unsafe_id).starts_with("req_"), "{unsafe_id}");
        }
    }
}
