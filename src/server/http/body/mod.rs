//! Request bodies: read within bounds of size and time, parsed strictly, with all faults of the fields reported
//! together.

#[cfg(test)]
mod fuzz;

use std::time::Duration;

use actix_web::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use actix_web::web::{Bytes, BytesMut};

use super::access::Access;
use super::call::Call;
use super::codes::Code;
use super::problem::{FieldError, Problem};
use crate::forms::{Element, Form, Reader, Spelling, Text};
use http1::{CutShort, Headers, Incoming, Request, ascii};

/// More than any request needs.
pub const BODY_MAX: usize = 64 * 1024;
/// More parameters than any form has.
const PARAMETERS_MAX: usize = 32;

/// A body within the size limit whose declared type is JSON.
pub struct Body {
    bytes: Bytes,
}

/// The only way to read a body for a request of the API. If the client loses its access while it sends the body, it is
/// refused immediately. Afterwards `access` has the caller's current role, before any decision depends on it.
pub async fn read_body(call: &mut Call, access: &mut Access) -> Result<Body, Problem> {
    let bytes = match read_at_once(&call.request, &mut call.incoming)? {
        Some(bytes) => bytes,
        // Boxed, so that the many requests whose body is already here reserve no space for it.
        None => {
            Box::pin(async {
                tokio::select! {
                    biased;
                    bytes = arrived(&mut call.incoming, call.app.node.body_timeout) => bytes,
                    problem = access.lost() => Err(problem),
                }
            })
            .await?
        }
    };
    access.renew()?;
    if !bytes.is_empty() {
        check_media_type(call.request.headers())?;
    }
    Ok(Body { bytes })
}

/// Reads the form of a body, for a handler that needs nothing else.
pub async fn read_form<T: Form>(call: &mut Call, access: &mut Access) -> Result<T, Problem> {
    read_body(call, access).await?.form()
}

/// Reads the form of a request that needs no access, such as a sign-in.
pub async fn read_open_form<T: Form>(call: &mut Call) -> Result<T, Problem> {
    let bytes = read(call).await?;
    if !bytes.is_empty() {
        check_media_type(call.request.headers())?;
    }
    Body { bytes }.form()
}

/// The parameters of a form-encoded body, which OAuth requires, for a request that needs no access.
pub async fn read_open_pairs(call: &mut Call) -> Result<Vec<(String, String)>, Problem> {
    const FORM: &str = "application/x-www-form-urlencoded";
    let bytes = read(call).await?;
    check_type(call.request.headers(), FORM, &format!("send a form in UTF-8 with `Content-Type: {FORM}`"))?;
    Ok(form_urlencoded::parse(&bytes).into_owned().take(PARAMETERS_MAX).collect())
}

impl Body {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The body as a form, or all its faults. Frees the bytes, so that the connection can reuse their buffer.
    pub fn form<T: Form>(self) -> Result<T, Problem> {
        let mut reader = Reader::new(Spelling::Camel);
        let form = T::read(&self.element()?, &mut reader);
        finish(form, reader)
    }

    /// An empty body counts as an empty object, so that a claim can be a plain `curl -X POST`.
    pub fn element(&self) -> Result<Element<'_>, Problem> {
        if self.bytes.is_empty() {
            return Ok(Element::empty_object());
        }
        serde_json::from_slice(&self.bytes).map_err(malformed)
    }
}

/// Reads a body for the record that the path names. The reader has the faults of both.
pub fn read_named<N: Text, T: Form>(field: &str, name: &str, element: &Element<'_>) -> (Option<(N, T)>, Reader) {
    let mut reader = Reader::new(Spelling::Camel);
    let name = N::parse_text(name).map_err(|malformed| reader.outer_fault(field, malformed.to_string())).ok();
    let form = T::read(element, &mut reader);
    (name.zip(form), reader)
}

/// The form, if the reader has found no faults.
pub fn finish<T>(form: Option<T>, reader: Reader) -> Result<T, Problem> {
    match form {
        Some(form) if !reader.has_faults() => Ok(form),
        Some(_) | None => {
            let faults = reader.into_faults().into_iter();
            let errors = faults.map(|fault| FieldError { field: fault.field, message: fault.message });
            Err(Problem::invalid_request(errors.collect()))
        }
    }
}

async fn read(call: &mut Call) -> Result<Bytes, Problem> {
    let Call { app, request, incoming, .. } = call;
    read_whole(request, incoming, app.node.body_timeout).await
}

/// All bytes of a body of any type.
pub async fn read_whole(request: &Request, incoming: &mut Incoming, within: Duration) -> Result<Bytes, Problem> {
    match read_at_once(request, incoming)? {
        Some(bytes) => Ok(bytes),
        None => arrived(incoming, within).await,
    }
}

/// Most bodies arrive with their heads, so there is no need to wait or for a clock.
fn read_at_once(request: &Request, incoming: &mut Incoming) -> Result<Option<Bytes>, Problem> {
    match incoming.whole() {
        _ if request.body_length() > BODY_MAX as u64 => Err(too_large()),
        Some(bytes) if bytes.len() > BODY_MAX => Err(too_large()),
        bytes => Ok(bytes),
    }
}

async fn arrived(incoming: &mut Incoming, within: Duration) -> Result<Bytes, Problem> {
    let whole = async {
        let mut bytes = BytesMut::new();
        while let Some(chunk) = incoming.next().await {
            let chunk =
                chunk.map_err(|CutShort| Problem::new(Code::BadRequest, "the body ended early; resend the request"))?;
            if bytes.len() + chunk.len() > BODY_MAX {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.freeze())
    };
    tokio::time::timeout(within, whole).await.unwrap_or_else(|_| {
        let seconds = within.as_secs();
        Err(Problem::new(Code::RequestTimeout, format!("the body did not arrive within {seconds} s; resend it")))
    })
}

fn too_large() -> Problem {
    Problem::new(Code::BodyTooLarge, format!("a body may have at most {BODY_MAX} bytes; send a smaller one"))
}

fn check_media_type(headers: &Headers) -> Result<(), Problem> {
    check_type(headers, "application/json", "send JSON in UTF-8 with `Content-Type: application/json`")
}

fn check_type(headers: &Headers, wanted: &str, advice: &str) -> Result<(), Problem> {
    let header = |name| headers.get(&name).map(|value| ascii(value).unwrap_or("something else"));
    let unsupported = |got: &str| {
        let detail = format!("the body is {got}; {advice}");
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
    if content_type == wanted {
        return Ok(());
    }
    let mut parts = content_type.split(';').map(str::trim);
    let is_wanted = parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case(wanted));
    let utf8 = parts.all(|parameter| match parameter.split_once('=') {
        Some((name, charset)) if name.eq_ignore_ascii_case("charset") => {
            charset.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        Some(_) | None => true,
    });
    if is_wanted && utf8 { Ok(()) } else { unsupported(content_type) }
}

fn malformed(error: serde_json::Error) -> Problem {
    let detail = format!("the body is not JSON we accept: {error}; fix it and resend");
    Problem::new(Code::MalformedJson, detail)
}
