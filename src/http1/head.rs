//! The head of a request: its parts, in buffers that the connection's next head can reuse. Refuses a head that two
//! readers could understand differently, so that one of them takes the body for the next request.

use std::mem::MaybeUninit;
use std::ops::Range;

use actix_http::header::HeaderName;
use actix_http::{Method, Uri, Version};

#[cfg(test)]
pub mod tests;

const HEADERS_MAX: usize = 96;
/// The maximum size of a head; a longer one is refused.
const BYTES_MAX: usize = 128 * 1024;
/// Longer targets are handled by [`Uri`], which has its own limit.
const PLAIN_TARGET_MAX: usize = 60_000;

/// A request without its body.
pub struct Head {
    pub method: Method,
    pub version: Version,
    pub headers: Headers,
    pub body: BodyLength,
    pub next: AfterAnswer,
    /// Whether the client waits for permission to send the body.
    pub expects_continue: bool,
    target: String,
    path_length: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    Bytes(u64),
    Chunked,
}

/// Whether the client keeps the connection open after this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterAnswer {
    KeepAlive,
    Close,
    /// Switch to another protocol. We support none, and the bytes that follow are not HTTP.
    Upgrade,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadError {
    Malformed,
    TooLarge,
}

/// The unparsed headers of a request. There are about a dozen, so a linear search suffices.
#[derive(Default)]
pub struct Headers {
    /// The bytes of the whole head.
    sent: Vec<u8>,
    fields: Vec<Field>,
}

/// A header's position in the head.
struct Field {
    name: Range<usize>,
    value: Range<usize>,
}

impl Default for Head {
    fn default() -> Self {
        Self {
            method: Method::GET,
            version: Version::HTTP_11,
            headers: Headers::default(),
            body: BodyLength::Bytes(0),
            next: AfterAnswer::KeepAlive,
            expects_continue: false,
            target: String::new(),
            path_length: 0,
        }
    }
}

impl Head {
    /// Parses the head at the beginning of these bytes into `self`, and returns its length; `None`, without a change,
    /// if the head is incomplete. After an error, the head must not be used.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<usize>, HeadError> {
        let mut fields = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut []);
        let length = match parsed.parse_with_uninit_headers(bytes, &mut fields) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if bytes.len() < BYTES_MAX => return Ok(None),
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLarge),
            Err(_) => return Err(HeadError::Malformed),
        };
        let method = Method::from_bytes(parsed.method.unwrap_or_default().as_bytes());
        self.method = method.map_err(|_| HeadError::Malformed)?;
        self.version = if parsed.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
        self.read_target(parsed.path.unwrap_or_default())?;
        self.headers.read(&bytes[..length], parsed.headers);
        let framing = Framing::of(parsed.headers, &self.method, self.version)?;
        Framing { body: self.body, next: self.next, expects_continue: self.expects_continue } = framing;
        Ok(Some(length))
    }

    /// Sets the path with its query, and the length of the path alone.
    fn read_target(&mut self, target: &str) -> Result<(), HeadError> {
        let is_plain = target.starts_with('/') && target.len() <= PLAIN_TARGET_MAX && are_plain(target.as_bytes());
        self.target.clear();
        if is_plain {
            self.target.push_str(target);
        } else {
            self.target.push_str(&read_unusual_target(target)?);
        }
        self.path_length = memchr::memchr(b'?', self.target.as_bytes()).unwrap_or(self.target.len());
        Ok(())
    }

    /// The capacity of the buffers.
    pub fn capacity(&self) -> usize {
        let Headers { sent, fields } = &self.headers;
        sent.capacity() + fields.capacity() * size_of::<Field>() + self.target.capacity()
    }

    /// The undecoded path.
    pub fn path(&self) -> &str {
        &self.target[..self.path_length]
    }

    pub fn query(&self) -> &str {
        self.target.get(self.path_length + 1..).unwrap_or_default()
    }

    pub fn path_and_query(&self) -> &str {
        &self.target
    }
}

/// Whether the bytes need no special handling in a target: none has a special meaning except the beginning of the
/// query. Branch-free, so that several bytes are checked together.
fn are_plain(bytes: &[u8]) -> bool {
    let is_in = |byte: u8, first: u8, last: u8| byte.wrapping_sub(first) <= last - first;
    bytes.iter().fold(true, |all, &byte| {
        let is_sign = (byte == b'!') | (byte == b'=') | (byte == b'~');
        all & (is_sign | is_in(byte, b'$', b';') | is_in(byte, b'?', b'_') | is_in(byte, b'a', b'z'))
    })
}

/// Handles a host before the path, a fragment after it, or other characters.
fn read_unusual_target(target: &str) -> Result<String, HeadError> {
    let uri = Uri::try_from(target).map_err(|_| HeadError::Malformed)?;
    Ok(match uri.query() {
        Some(query) => format!("{}?{query}", uri.path()),
        None => uri.path().to_owned(),
    })
}

/// How the body of a request ends, and what happens after the answer.
struct Framing {
    body: BodyLength,
    next: AfterAnswer,
    expects_continue: bool,
}

impl Framing {
    fn of(headers: &[httparse::Header<'_>], method: &Method, version: Version) -> Result<Self, HeadError> {
        let is_1_1 = version == Version::HTTP_11;
        let (mut hosts, mut length, mut encoding, mut asked) = (0, None, None, None);
        let (mut is_websocket, mut expects_continue) = (false, false);
        for httparse::Header { name, value } in headers {
            let is = |known: &str| is_named(name.as_bytes(), known);
            if is("host") {
                hosts += 1;
            } else if is("content-length") {
                refuse_second(length.replace(read_length(value).ok_or(HeadError::Malformed)?))?;
            } else if is("transfer-encoding") {
                refuse_second(encoding.replace(*value))?;
            } else if is("connection") {
                asked = options(value).fold(asked, AfterAnswer::asked);
            } else if is("upgrade") {
                is_websocket |= value.trim_ascii().eq_ignore_ascii_case(b"websocket");
            } else if is("expect") {
                expects_continue |= is_1_1 && options(value).any(|option| option.eq_ignore_ascii_case(b"100-continue"));
            }
        }
        let body = match (encoding, length) {
            (None, Some(length)) => BodyLength::Bytes(length),
            (None, None) if *method == Method::POST && !is_1_1 => return Err(HeadError::Malformed),
            (None, None) => BodyLength::Bytes(0),
            (Some(encoding), None) if is_1_1 && encoding.trim_ascii().eq_ignore_ascii_case(b"chunked") => {
                BodyLength::Chunked
            }
            (Some(_), _) => return Err(HeadError::Malformed),
        };
        if hosts > 1 || hosts == 0 && is_1_1 {
            return Err(HeadError::Malformed);
        }
        let is_other_protocol = is_websocket || *method == Method::CONNECT;
        let next = match asked {
            _ if is_other_protocol => AfterAnswer::Upgrade,
            Some(asked) => asked,
            None if is_1_1 => AfterAnswer::KeepAlive,
            None => AfterAnswer::Close,
        };
        Ok(Self { body, next, expects_continue })
    }
}

/// Accepts only digits; the library's parser would accept a plus sign.
fn read_length(value: &[u8]) -> Option<u64> {
    let digits = ascii(value.trim_ascii()).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?;
    digits.parse().ok()
}

fn refuse_second<T>(first: Option<T>) -> Result<(), HeadError> {
    if first.is_some() { Err(HeadError::Malformed) } else { Ok(()) }
}

fn options(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

impl AfterAnswer {
    /// Adds an option of `Connection`; `close` takes precedence.
    fn asked(before: Option<Self>, option: &[u8]) -> Option<Self> {
        match before {
            Some(Self::Close) => before,
            _ if option.eq_ignore_ascii_case(b"close") => Some(Self::Close),
            _ if option.eq_ignore_ascii_case(b"upgrade") => Some(Self::Upgrade),
            None if option.eq_ignore_ascii_case(b"keep-alive") => Some(Self::KeepAlive),
            _ => before,
        }
    }
}

impl Headers {
    /// Replaces these headers with the parsed ones.
    fn read(&mut self, sent: &[u8], parsed: &[httparse::Header<'_>]) {
        let place = |part: &[u8]| {
            let start = part.first().and_then(|first| sent.element_offset(first)).unwrap_or(0);
            start..start + part.len()
        };
        self.sent.clear();
        self.sent.extend_from_slice(sent);
        self.fields.clear();
        let fields = parsed.iter().map(|field| Field { name: place(field.name.as_bytes()), value: place(field.value) });
        self.fields.extend(fields);
    }

    /// The values of a header that may occur several times.
    pub fn get_all(&self, name: HeaderName) -> impl Iterator<Item = &[u8]> {
        self.fields.iter().filter(move |field| self.is_named(field, name.as_str())).map(|field| self.value(field))
    }

    pub fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        let name = name.as_str();
        self.fields.iter().find(|field| self.is_named(field, name)).map(|field| self.value(field))
    }

    pub fn contains(&self, name: &HeaderName) -> bool {
        self.get(name).is_some()
    }

    /// The text of a header, if it is ASCII.
    pub fn text(&self, name: &HeaderName) -> Option<&str> {
        self.get(name).and_then(ascii)
    }

    /// The texts of all ASCII lines of a header.
    pub fn texts(&self, name: HeaderName) -> impl Iterator<Item = &str> {
        self.get_all(name).filter_map(ascii)
    }

    /// The names and values as sent.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|field| (self.name(field), self.value(field)))
    }

    fn is_named(&self, field: &Field, name: &str) -> bool {
        field.name.len() == name.len() && is_named(self.name(field), name)
    }

    fn name(&self, field: &Field) -> &[u8] {
        &self.sent[field.name.clone()]
    }

    fn value(&self, field: &Field) -> &[u8] {
        &self.sent[field.value.clone()]
    }
}

/// Whether a sent name, in either case, is this lower-case one. Most names already differ in length; the others are
/// compared without a branch per byte.
#[inline]
fn is_named(sent: &[u8], name: &str) -> bool {
    let is_same = |(sent, known): (&u8, u8)| sent.to_ascii_lowercase() == known;
    sent.len() == name.len() && sent.iter().zip(name.bytes()).fold(true, |all, pair| all & is_same(pair))
}

/// The value of a header as text, if it is ASCII.
pub fn ascii(value: &[u8]) -> Option<&str> {
    str::from_utf8(value).ok().filter(|text| text.is_ascii())
}

/// Used in tests of handlers.
impl<'v> FromIterator<(HeaderName, &'v str)> for Headers {
    fn from_iter<I: IntoIterator<Item = (HeaderName, &'v str)>>(fields: I) -> Self {
        let mut headers = Self::default();
        for (name, value) in fields {
            let start = headers.sent.len();
            headers.sent.extend_from_slice(name.as_str().as_bytes());
            let name = start..headers.sent.len();
            headers.sent.extend_from_slice(value.as_bytes());
            headers.fields.push(Field { value: name.end..headers.sent.len(), name });
        }
        headers
    }
}
