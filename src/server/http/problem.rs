//! An error response: RFC 9457 `application/problem+json`.

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use serde::Serialize;
use serde_json::{Map, Value};

use super::codes::Code;
use http1::Response;

pub const CONTENT_TYPE_PROBLEM: &str = "application/problem+json";
/// The retry delay: long enough for a burst to pass.
pub const OVERLOADED_RETRY_SECONDS: u64 = 1;
/// The faults listed in one problem: nobody fixes more at a time, and the response stays about as long as its request.
const ERRORS_MAX: usize = 100;

/// Boxed, so that the rare error does not enlarge every result.
#[derive(Debug)]
pub struct Problem(Box<Inner>);

#[derive(Debug)]
struct Inner {
    code: Code,
    detail: String,
    extra: Map<String, Value>,
    headers: Vec<(HeaderName, String)>,
    cause: Option<String>,
    /// Overrides the status of the code.
    status: Option<StatusCode>,
}

/// One invalid field or parameter. The message completes a sentence that begins with the field's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    pub field: String,
    pub message: String,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let (extra, headers) = (Map::new(), Vec::new());
        Self(Box::new(Inner { code, detail: detail.into(), extra, headers, cause: None, status: None }))
    }

    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        // All our types are serialisable; a value that is not would only be omitted.
        if let Ok(value) = serde_json::to_value(value) {
            self.0.extra.insert(name.to_owned(), value);
        }
        self
    }

    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = detail.into();
        self
    }

    /// Overrides the code's status, where a standard requires another one.
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = Some(status);
        self
    }

    pub fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        self.0.headers.push((name, value.to_owned()));
        self
    }

    pub fn retry_after(self, seconds: u64) -> Self {
        self.with("retryAfterSeconds", seconds).with_header(RETRY_AFTER, &seconds.to_string())
    }

    /// All faults of a body.
    pub fn invalid_request(errors: Vec<FieldError>) -> Self {
        Self::faulty(Code::InvalidRequest, errors)
    }

    /// All faults of a query.
    pub fn invalid_parameters(errors: Vec<FieldError>) -> Self {
        Self::faulty(Code::InvalidParameter, errors)
    }

    /// One fault of a body.
    pub fn invalid_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid_request(vec![FieldError { field: field.into(), message: message.into() }])
    }

    fn faulty(code: Code, mut errors: Vec<FieldError>) -> Self {
        let summary = Self::summary(&errors);
        errors.truncate(ERRORS_MAX);
        Self::new(code, summary).with("errors", errors)
    }

    fn summary(errors: &[FieldError]) -> String {
        let listed: Vec<_> = errors.iter().take(5).map(|e| format!("`{}` {}", e.field, e.message)).collect();
        let more = errors.len().saturating_sub(listed.len());
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        format!("{}{more}", listed.join("; "))
    }

    pub fn unauthenticated(code: Code, detail: impl Into<String>) -> Self {
        let challenge = match code {
            Code::InvalidToken => r#"Bearer realm="lockkeeper", error="invalid_token""#,
            _ => r#"Bearer realm="lockkeeper""#,
        };
        Self::new(code, detail).with_header(WWW_AUTHENTICATE, challenge)
    }

    pub fn method_not_allowed(method: &str, allowed: &str) -> Self {
        Self::new(Code::MethodNotAllowed, format!("{method} is not allowed here; use one of {allowed}"))
            .with_header(ALLOW, allowed)
    }

    /// A problem in a cluster. `why` completes "the cluster cannot answer at the moment:".
    pub fn engine_unavailable(why: impl fmt::Display) -> Self {
        let detail = format!("the cluster cannot answer at the moment: {why}; try again");
        Self::new(Code::EngineUnavailable, detail).retry_after(OVERLOADED_RETRY_SECONDS)
    }

    pub fn overloaded(why: &str) -> Self {
        Self::new(Code::Overloaded, format!("{why}; nothing was changed, try again in a moment"))
            .retry_after(OVERLOADED_RETRY_SECONDS)
    }

    /// A failure of the server. The cause is logged and not sent to the client.
    pub fn internal(cause: impl fmt::Display) -> Self {
        Self::new(Code::InternalError, Code::InternalError.meaning()).because(cause)
    }

    /// Adds a cause, which is logged with the request's id and not sent to the client.
    pub fn because(mut self, cause: impl fmt::Display) -> Self {
        self.0.cause = Some(cause.to_string());
        self
    }

    pub fn cause(&self) -> Option<&str> {
        self.0.cause.as_deref()
    }

    pub fn code(&self) -> Code {
        self.0.code
    }

    pub fn render(&self, request_id: &str) -> Response {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            r#type: String,
            title: &'a str,
            status: u16,
            detail: &'a str,
            code: &'a str,
            request_id: &'a str,
            #[serde(flatten)]
            extra: &'a Map<String, Value>,
        }
        let code = self.0.code;
        let status = self.0.status.unwrap_or(code.status());
        let wire = Wire {
            r#type: format!("/problems/{}", code.as_str()),
            title: code.title(),
            status: status.as_u16(),
            detail: &self.0.detail,
            code: code.as_str(),
            request_id,
            extra: &self.0.extra,
        };
        let response = Response::new(status).of_type(CONTENT_TYPE_PROBLEM);
        let response =
            self.0.headers.iter().fold(response, |response, (name, value)| response.with(name.clone(), value));
        response.body(serde_json::to_vec(&wire).unwrap_or_default())
    }
}

impl From<Code> for Problem {
    fn from(code: Code) -> Self {
        Self::new(code, code.detail())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code.as_str(), self.0.detail)
    }
}

impl std::error::Error for Problem {}
