//! Request bodies: read within bounds of size and time, parsed strictly, every fault of the fields reported at once.

use std::fmt;

use actix_web::HttpRequest;
use actix_web::dev::Payload;
use actix_web::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use actix_web::web::BytesMut;
use futures_util::StreamExt;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::App;
use super::codes::Code;
use super::problem::{FieldError, Problem};
use crate::domain::Malformed;

/// More than any request of ours needs.
pub const BODY_MAX: usize = 64 * 1024;

/// The body of a request as an object of fields. No body at all counts as an empty object, so that a claim can be a
/// plain `curl -X POST`.
pub async fn read_fields(request: &HttpRequest, payload: &mut Payload, app: &App) -> Result<Fields, Problem> {
    let bytes = read(request, payload, app).await?;
    if bytes.is_empty() {
        return Ok(Fields::new(Vec::new()));
    }
    check_media_type(request)?;
    match serde_json::from_slice(&bytes).map_err(malformed)? {
        Json::Object(fields) => Ok(Fields::new(fields)),
        other => {
            let message = format!("is an object, not {}", other.kind());
            Err(Problem::invalid_request(vec![FieldError { field: "body".to_owned(), message }]))
        }
    }
}

async fn read(request: &HttpRequest, payload: &mut Payload, app: &App) -> Result<BytesMut, Problem> {
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
    tokio::time::timeout(app.body_timeout, whole).await.unwrap_or_else(|_| {
        let seconds = app.body_timeout.as_secs();
        Err(Problem::new(Code::RequestTimeout, format!("the body did not arrive within {seconds} s; send it again")))
    })
}

fn check_media_type(request: &HttpRequest) -> Result<(), Problem> {
    let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or("something else"));
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

/// JSON as it was sent, so that a key that stands twice is seen. serde_json bounds the depth.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Number(_) => "a number",
            Json::Text(_) => "a string",
            Json::Array(_) => "an array",
            Json::Object(_) => "an object",
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(serde_json::Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut seen = std::collections::HashSet::new();
        let mut fields = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, Json>()? {
            if !seen.insert(key.clone()) {
                return Err(de::Error::custom(format_args!("the key `{key}` stands twice in one object")));
            }
            fields.push((key, value));
        }
        Ok(Json::Object(fields))
    }
}

/// The fields of an object, taken one by one; what is wrong is collected, and what nobody took is unknown.
pub struct Fields {
    fields: Vec<(String, Json)>,
    errors: Vec<FieldError>,
}

impl Fields {
    fn new(fields: Vec<(String, Json)>) -> Self {
        Self { fields, errors: Vec::new() }
    }

    fn take(&mut self, name: &str) -> Option<Json> {
        let place = self.fields.iter().position(|(field, _)| field == name)?;
        Some(self.fields.swap_remove(place).1)
    }

    pub fn wrong(&mut self, field: &str, message: impl Into<String>) {
        self.errors.push(FieldError { field: field.to_owned(), message: message.into() });
    }

    /// A text that may be left out or null.
    pub fn nullable_text<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, Malformed>) -> Option<T> {
        if matches!(self.fields.iter().find(|(field, _)| field == name), Some((_, Json::Null))) {
            self.take(name);
            return None;
        }
        self.text(name, parse)
    }

    /// A text that may be left out.
    pub fn text<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, Malformed>) -> Option<T> {
        match self.take(name)? {
            Json::Text(text) => match parse(&text) {
                Ok(value) => Some(value),
                Err(malformed) => {
                    self.wrong(name, malformed.to_string());
                    None
                }
            },
            other => {
                self.wrong(name, format!("is a string, not {}", other.kind()));
                None
            }
        }
    }

    /// A text that must be there.
    pub fn required_text<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, Malformed>) -> Option<T> {
        if matches!(self.fields.iter().find(|(field, _)| field == name), None | Some((_, Json::Null))) {
            self.take(name);
            self.wrong(name, "is required");
            return None;
        }
        self.text(name, parse)
    }

    pub fn boolean(&mut self, name: &str) -> Option<bool> {
        match self.take(name)? {
            Json::Bool(value) => Some(value),
            other => {
                self.wrong(name, format!("is a boolean, not {}", other.kind()));
                None
            }
        }
    }

    /// An object of texts, each entry under the name `name.key`.
    pub fn texts<K: Ord, V>(
        &mut self,
        name: &str,
        entries_max: usize,
        parse_key: impl Fn(&str) -> Result<K, Malformed>,
        parse_value: impl Fn(&str) -> Result<V, Malformed>,
    ) -> Option<std::collections::BTreeMap<K, V>> {
        let entries = match self.take(name)? {
            Json::Object(entries) => entries,
            other => {
                self.wrong(name, format!("is an object of strings, not {}", other.kind()));
                return None;
            }
        };
        if entries.len() > entries_max {
            self.wrong(name, format!("has at most {entries_max} entries"));
        }
        let mut texts = std::collections::BTreeMap::new();
        for (key, value) in entries {
            let field = format!("{name}.{key}");
            let parsed_key =
                parse_key(&key).map_err(|malformed| self.wrong(&field, format!("has a key that {malformed}")));
            let parsed_value = match &value {
                Json::Text(text) => parse_value(text).map_err(|malformed| self.wrong(&field, malformed.to_string())),
                other => {
                    self.wrong(&field, format!("is a string, not {}", other.kind()));
                    Err(())
                }
            };
            if let (Ok(key), Ok(value)) = (parsed_key, parsed_value) {
                texts.insert(key, value);
            }
        }
        Some(texts)
    }

    /// A field of the contract that this version cannot act on: refused, since ignoring it would be a lie. The value
    /// that changes nothing is let through, so that what was read can be written back.
    pub fn not_yet(&mut self, name: &str, harmless: &Json) {
        if let Some(value) = self.take(name)
            && value != *harmless
        {
            self.wrong(name, "is not supported by this version; leave it out");
        }
    }

    /// If the object is nothing but this one object, its fields instead.
    pub fn unwrap_only(self, name: &str) -> Self {
        match <[_; 1]>::try_from(self.fields) {
            Ok([(field, Json::Object(inner))]) if field == name => Self::new(inner),
            Ok(other) => Self { fields: other.into(), errors: self.errors },
            Err(fields) => Self { fields, errors: self.errors },
        }
    }

    /// All faults at once, those nobody asked for among them.
    pub fn finish(mut self) -> Result<(), Problem> {
        for (field, _) in std::mem::take(&mut self.fields) {
            self.wrong(&field, "is unknown here");
        }
        if self.errors.is_empty() { Ok(()) } else { Err(Problem::invalid_request(self.errors)) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::domain::CommitId;

    fn parse(text: &str) -> Result<Json, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_at_any_depth() {
        assert!(parse(r#"{"a": 1, "b": {"a": 2}}"#).is_ok());
        for twice in [r#"{"a": 1, "a": 1}"#, r#"{"x": [{"a": 1, "a": 2}]}"#, r#"{"a": 1, "\u0061": 1}"#] {
            assert!(parse(twice).unwrap_err().to_string().contains("stands twice"), "{twice}");
        }
    }

    #[test]
    fn absurd_depth_is_refused_before_it_hurts() {
        let deep = "[".repeat(30_000);
        assert!(parse(&deep).unwrap_err().to_string().contains("recursion limit"));
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let Json::Object(object) =
            parse(r#"{"commitId": "-x", "context": 7, "colour": "red", "ttlSeconds": 5}"#).unwrap()
        else {
            panic!("an object")
        };
        let mut fields = Fields::new(object);
        assert!(fields.text("commitId", CommitId::parse).is_none());
        assert!(fields.text("context", CommitId::parse).is_none());
        fields.not_yet("ttlSeconds", &Json::Null);
        let problem = fields.finish().unwrap_err().to_string();
        for field in ["commitId", "context", "colour", "ttlSeconds"] {
            assert!(problem.contains(field), "{problem}");
        }
    }
}
