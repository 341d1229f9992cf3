//! Request bodies: read within bounds of size and time, parsed strictly, every fault of the fields reported at once.

mod fields;
mod inputs;
mod json;
mod lists;

pub use fields::Fields;
pub use json::Json;

use actix_web::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use actix_web::web::BytesMut;
use futures_util::StreamExt;

use super::call::Call;
use super::codes::Code;
use super::problem::{FieldError, Problem};

/// More than any request of ours needs.
pub const BODY_MAX: usize = 64 * 1024;

/// A body as it was sent: within its bounds, and JSON by its own account.
pub struct Body {
    bytes: BytesMut,
}

pub async fn read_body(call: &mut Call) -> Result<Body, Problem> {
    let bytes = read(call).await?;
    if !bytes.is_empty() {
        check_media_type(call.request.headers())?;
    }
    Ok(Body { bytes })
}

/// For those who need nothing of a body but its fields.
pub async fn read_fields(call: &mut Call) -> Result<Fields, Problem> {
    read_body(call).await?.fields()
}

impl Body {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The body as an object of fields. No body at all counts as an empty object, so that a claim can be a plain
    /// `curl -X POST`.
    pub fn fields(&self) -> Result<Fields, Problem> {
        if self.bytes.is_empty() {
            return Ok(Fields::new(Vec::new()));
        }
        match serde_json::from_slice(&self.bytes).map_err(malformed)? {
            Json::Object(fields) => Ok(Fields::new(fields)),
            other => {
                let message = format!("is an object, not {}", other.kind());
                Err(Problem::invalid_request(vec![FieldError { field: "body".to_owned(), message }]))
            }
        }
    }
}

async fn read(call: &mut Call) -> Result<BytesMut, Problem> {
    let Call { app, request, payload, .. } = call;
    let too_large =
        || Problem::new(Code::BodyTooLarge, format!("a body has at most {BODY_MAX} bytes; send a smaller one"));
    let announced = request.headers().get("content-length").and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: u64| length > BODY_MAX as u64) {
        return Err(too_large());
    }
    let whole = async {
        let mut bytes = BytesMut::new();
        while let Some(chunk) = payload.next().await {
            let chunk = chunk.map_err(|_| {
                Problem::new(Code::BadRequest, "the body ended before it was whole; send the request again")
            })?;
            if bytes.len() + chunk.len() > BODY_MAX {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    };
    tokio::time::timeout(app.node.body_timeout, whole).await.unwrap_or_else(|_| {
        let seconds = app.node.body_timeout.as_secs();
        Err(Problem::new(Code::RequestTimeout, format!("the body did not arrive within {seconds} s; send it again")))
    })
}

fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    let header = |name| headers.get(name).map(|value| value.to_str().unwrap_or("something else"));
    let unsupported = |got: &str| {
        let detail = format!("the body is {got}; send JSON in UTF-8 with `Content-Type: application/json`");
        Err(Problem::new(Code::UnsupportedMediaType, detail))
    };
    if let Some(encoding) = header(CONTENT_ENCODING)
        && !encoding.eq_ignore_ascii_case("identity")
    {
        return unsupported(&format!("encoded as {encoding}"));
    }
    let Some(content_type) = header(CONTENT_TYPE) else {
        return unsupported("of no stated type");
    };
    let mut parts = content_type.split(';').map(str::trim);
    let json = parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"));
    let utf8 = parts.all(|parameter| match parameter.split_once('=') {
        Some((name, charset)) if name.eq_ignore_ascii_case("charset") => {
            charset.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        Some(_) | None => true,
    });
    if json && utf8 { Ok(()) } else { unsupported(content_type) }
}

fn malformed(error: serde_json::Error) -> Problem {
    let detail = format!("the body is not JSON we accept: {error}; mend it and send it again");
    Problem::new(Code::MalformedJson, detail)
}
