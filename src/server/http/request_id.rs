//! The id of a request, in its answer and in the log: the client's own if it is safe there, else a new one.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use actix_web::http::header::HeaderName;

use super::head::Headers;
use ambient::entropy;
use domain::IdText;

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LENGTH_MAX: usize = 128;

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
