//! Lines for comparison and display: without terminal escapes and overwritten text, and without parts that vary.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use regex::bytes::{Captures, Regex, RegexBuilder};

use crate::analysis::clipped;

/// The part of a line that is examined: nobody writes a reason further to the right.
const LINE_BYTES_MAX: usize = 4096;
/// The part of a captured text that is shown.
const CAPTURE_CHARACTERS_MAX: usize = 120;

/// Prefixes added by tools: times, the step of an image build, the name of a container.
const PREFIX: &str = r"^(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,:+Z-]*(?: [+-]\d{4})?\]?:? |\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]? |#\d+ \d+\.\d+ |[A-Za-z][\w.-]*[-_]\d+ +\| |##\[error\]){1,3}";

static PREFIXES: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = RegexBuilder::new(PREFIX).unicode(false).build();
    pattern.expect("the pattern is a constant, which a test compiles")
});

/// The line as a terminal would show it: without escapes, overwritten text and excess length; and without the prefixes of
/// tools.
pub(super) fn cleaned(text: &str) -> Cow<'_, str> {
    let text = text.trim_end();
    let text = text.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or_default();
    let text = &text[..text.floor_char_boundary(LINE_BYTES_MAX)];
    if text.contains('\u{1b}') {
        let text = without_escapes(text);
        return Cow::Owned(without_prefixes(&text).to_owned());
    }
    Cow::Borrowed(without_prefixes(text))
}

fn without_prefixes(text: &str) -> &str {
    // The prefix is ASCII, so the rest begins at a character boundary.
    PREFIXES.find(text.as_bytes()).and_then(|prefix| text.get(prefix.end()..)).unwrap_or(text)
}

fn without_escapes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\u{1b}' {
            kept.push(character);
            continue;
        }
        match characters.next() {
            // A control sequence ends with a letter (or `@`, `~`…), an operating system command with a bell.
            Some('[') => drop(characters.by_ref().find(|c| ('@'..='~').contains(c))),
            Some(']') => drop(characters.by_ref().find(|c| *c == '\u{7}')),
            Some(_) | None => {}
        }
    }
    kept
}

/// Equal for lines that differ only in numbers, times, hashes and blanks. Zero differs from other numbers: `0 failed` and
/// `3 failed` are not the same.
pub(super) fn fingerprint(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut last = Token::Blank;
    for token in tokens(text) {
        match (token, last) {
            (Token::Blank, Token::Blank) => continue,
            (Token::Blank, _) => b' '.hash(&mut hasher),
            (Token::Number { zero }, _) => zero.hash(&mut hasher),
            (Token::Text(text), _) => text.hash(&mut hasher),
        }
        last = token;
    }
    hasher.finish()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Blank,
    /// One or several numbers with separators, such as a time or a version, or a word with digits.
    Number {
        zero: bool,
    },
    Text(&'a str),
}

fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = text.trim();
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        if first.is_whitespace() {
            rest = rest.trim_start();
            return Some(Token::Blank);
        }
        let (length, zero) = number_at(rest);
        if length > 0 {
            rest = &rest[length..];
            return Some(Token::Number { zero });
        }
        let word = word_at(rest).max(first.len_utf8());
        let (token, after) = rest.split_at(word);
        rest = after;
        Some(Token::Text(token))
    })
}

fn word_at(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_alphanumeric).count()
}

/// The length of the number at the beginning of the text, or 0; and whether it consists of zeros only.
fn number_at(text: &str) -> (usize, bool) {
    let mut end = 0;
    let mut zero = true;
    loop {
        let word = &text[end..end + word_at(&text[end..])];
        if !word.bytes().any(|byte| byte.is_ascii_digit()) {
            // The last separator belongs to the following token.
            return (end.saturating_sub(1), zero);
        }
        zero &= word.bytes().all(|byte| byte == b'0');
        end += word.len();
        match text.as_bytes().get(end) {
            Some(b':' | b'.' | b',' | b'-' | b'/' | b'+') => end += 1,
            Some(_) | None => return (end, zero),
        }
    }
}

/// A sentence of the catalogue, filled in with the captures of its signature.
pub(super) fn filled(template: &str, captures: Option<&Captures<'_>>) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        let (names, otherwise) = name.split_once('|').unwrap_or((name, "…"));
        let group = names.split('/').find_map(|name| captures?.name(name));
        let group = group.map(|group| presentable(group.as_bytes())).filter(|group| !group.is_empty());
        text.push_str(before);
        text.push_str(group.as_deref().unwrap_or(otherwise));
        rest = after;
    }
    text.push_str(rest);
    text
}

/// Text from a log within one of our sentences: short, on one line, and without characters that would end its quotes.
fn presentable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text: String = text.chars().map(|c| if c.is_control() || c == '`' { ' ' } else { c }).collect();
    let text = text.trim();
    let quotes = [('\'', '\''), ('"', '"'), ('‘', '’'), ('“', '”')];
    let unquoted = quotes.iter().find_map(|(open, close)| text.strip_prefix(*open)?.strip_suffix(*close));
    clipped(unquoted.unwrap_or(text), CAPTURE_CHARACTERS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_a_terminal_would_not_show_is_removed() {
        assert_eq!(cleaned("\u{1b}[31merror\u{1b}[0m: no\r\n"), "error: no");
        assert_eq!(cleaned("10%\r55%\rdone"), "done");
        assert_eq!(cleaned("\u{1b}]0;title\u{7}text \u{1b}[2K"), "text ");
        assert_eq!(cleaned("\u{1b}[31"), "");
        for prefixed in [
            "2026-03-02T08:11:09.1142345Z error: no",
            "[2026-03-02 08:11:09 +0000] error: no",
            "#12 41.220 error: no",
            "web-1  | error: no",
            "2026-03-02T08:11:09Z ##[error]error: no",
            "\u{1b}[36m[08:11:09]\u{1b}[0m error: no",
        ] {
            assert_eq!(cleaned(prefixed), "error: no", "{prefixed}");
        }
        assert_eq!(cleaned("41 |   error: no"), "41 |   error: no");
        assert_eq!(cleaned(&"ä".repeat(5000)).len(), 4096);
    }

    #[test]
    fn lines_that_differ_only_in_numbers_times_and_hashes_have_one_fingerprint() {
        for (one, other) in [
            ("[10:00:01] retry 1 of 3", "[10:05:59] retry 2  of 3"),
            ("2026-03-02T10:00:00.000Z INFO up in 4.1s", "2026-11-12T07:11:59.120Z INFO up in 10.0s"),
            ("built image sha256:9f3c1d7aa", "built image sha256:0be17d0f2"),
        ] {
            assert_eq!(fingerprint(one), fingerprint(other), "{one}");
        }
        for (one, other) in
            [("0 failed", "3 failed"), ("exit code 0", "exit code 1"), ("a: refused", "b: refused"), ("a-b", "ab")]
        {
            assert_ne!(fingerprint(one), fingerprint(other), "{one}");
        }
    }
}
