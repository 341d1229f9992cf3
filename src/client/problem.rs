//! An error answer of the server, or of something between it and us that is not Lockkeeper.

use std::time::Duration;

use serde_json::{Map, Value};

/// Enough of a foreign page to recognise it.
const FOREIGN_TEXT_MAX: usize = 200;

#[derive(Debug, Clone)]
pub struct Problem {
    pub status: u16,
    /// Stable, like `environment_locked`; empty if the answer is not Lockkeeper's.
    pub code: String,
    /// For people: why, and what to do next.
    pub detail: String,
    pub errors: Vec<FieldError>,
    /// When another attempt is welcome.
    pub retry_after: Option<Duration>,
    /// All members of the answer, such as `holder`.
    pub body: Map<String, Value>,
}

#[derive(Debug, Clone)]
pub struct FieldError {
    pub field: String,
    pub message: String,
}

impl Problem {
    pub fn read(status: u16, content_type: &str, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let fields = match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) | Err(_) => Map::new(),
        };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        let (Some(code), Some(detail)) = (text("code"), text("detail")) else {
            return Self::foreign(status, content_type, retry_after, body);
        };
        let listed = fields.get("errors").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let errors = listed.iter().filter_map(|error| {
            let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
            Some(FieldError { field: text("field")?, message: text("message")? })
        });
        let errors = errors.collect();
        let seconds = fields.get("retryAfterSeconds").and_then(Value::as_u64).map(Duration::from_secs);
        Self { status, code, detail, errors, retry_after: retry_after.or(seconds), body: fields }
    }

    fn foreign(status: u16, content_type: &str, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let shown = visible_text(&String::from_utf8_lossy(body));
        let shown = if shown.is_empty() { content_type.to_owned() } else { shown };
        let detail = format!(
            "the answer with status {status} is not Lockkeeper's: {shown}; check the address, and what stands between here \
             and the server"
        );
        Self { status, code: String::new(), detail, errors: Vec::new(), retry_after, body: Map::new() }
    }

    /// Whether Lockkeeper itself said this.
    pub fn is_ours(&self) -> bool {
        !self.code.is_empty()
    }
}

/// The text of a page without its tags, shortened.
fn visible_text(page: &str) -> String {
    let mut text = String::new();
    let mut in_tag = false;
    for character in page.chars() {
        match character {
            '<' => in_tag = true,
            '>' if in_tag => {
                in_tag = false;
                text.push(' ');
            }
            _ if !in_tag => text.push(character),
            _ => {}
        }
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    match text.char_indices().nth(FOREIGN_TEXT_MAX) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_shown_by_its_words() {
        let page = "<!doctype html><html><head><title>502 Bad Gateway</title></head>\n<body>nginx</body></html>";
        assert_eq!(visible_text(page), "502 Bad Gateway nginx");
    }

    #[test]
    fn whatever_comes_is_a_problem() {
        for body in [&b""[..], b"null", b"[]", b"{}", b"\xff\xfe", b"{\"code\": 1}", b"<", b">"] {
            let problem = Problem::read(502, "text/plain", None, body);
            assert!(!problem.is_ours() && problem.detail.contains("502"), "{problem:?}");
        }
    }
}
