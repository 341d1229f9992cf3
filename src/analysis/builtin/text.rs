//! Prepares lines for comparison: splits them into pieces, and removes the prefixes of tools (`catalogue/lines.toml`)
//! and the parts that vary.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::catalogue::{self, AnyOf, Pattern};
use crate::plain::{last_shown, plain};

/// A longer line is examined in windows of this size.
const WINDOW_BYTES: usize = 4096;
/// The overlap of two windows, so that no message is cut: longer than nearly all messages.
const OVERLAP_BYTES: usize = 512;
/// A line with a literal `\n` is split if it is at least this long, or contains quoted text.
const SPELLED_FROM: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    prefixes: AnyOf,
    fields: Vec<String>,
}

struct Lines {
    prefixes: Pattern,
    /// With the quotes and the colon of JSON.
    fields: Vec<String>,
}

static LINES: LazyLock<Lines> = LazyLock::new(|| {
    let Table { prefixes, fields } = catalogue::LINES.read();
    Lines {
        prefixes: Pattern::new(format!("(?-i)^(?:{}){{1,4}}", prefixes.joined())),
        fields: fields.iter().map(|field| format!("\"{field}\":")).collect(),
    }
});

/// The line as a terminal would show it, without the prefixes of tools.
pub(super) fn cleaned(text: &str) -> Cow<'_, str> {
    match last_shown(text) {
        Cow::Borrowed(text) => Cow::Borrowed(without_prefixes(text)),
        Cow::Owned(text) => Cow::Owned(without_prefixes(&text).to_owned()),
    }
}

/// Calls `examine` with each meaningful piece of a line: parts separated by carriage returns, or by `\n` in quoted
/// text, the texts of a structured log, and windows of pieces that are still long.
pub(super) fn each_piece(line: &str, examine: &mut dyn FnMut(&str)) {
    for part in line.trim_end().split('\r') {
        let part = plain(part);
        let text = without_prefixes(part.trim_end());
        windows(text, examine);
        if text.starts_with("{\"") || text.starts_with("{ \"") {
            for field in &LINES.fields {
                for (at, _) in text.match_indices(field.as_str()) {
                    let value = text[at + field.len()..].trim_start();
                    value.strip_prefix('"').map(quoted).into_iter().for_each(|value| spelled_lines(value, examine));
                }
            }
        } else if text.contains("\\n") && (text.len() >= SPELLED_FROM || text.contains('"')) {
            spelled_lines(text, examine);
        }
    }
}

/// The piece with this index.
pub(super) fn piece(line: &str, index: usize) -> String {
    let (mut at, mut found) = (0, String::new());
    each_piece(line, &mut |piece| {
        if at == index {
            piece.clone_into(&mut found);
        }
        at += 1;
    });
    found
}

fn windows(text: &str, examine: &mut dyn FnMut(&str)) {
    let mut from = 0;
    while text.len() - from > WINDOW_BYTES {
        let to = text.floor_char_boundary(from + WINDOW_BYTES);
        examine(&text[from..to]);
        from = text.floor_char_boundary(to - OVERLAP_BYTES);
    }
    examine(&text[from..]);
}

/// The parts between `\n` in quoted text, with quotes unchanged.
fn spelled_lines(text: &str, examine: &mut dyn FnMut(&str)) {
    for line in text.split("\\n") {
        let line = line.trim_end_matches("\\r").trim_end_matches('\\');
        if !line.trim().is_empty() {
            let line = plain(line);
            windows(without_prefixes(&line.replace("\\t", "  ").replace("\\\"", "\"")), examine);
        }
    }
}

/// The text up to its closing quote.
fn quoted(text: &str) -> &str {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    &text[..end.unwrap_or(text.len())]
}

/// Removes the prefixes of tools.
pub(super) fn without_prefixes(text: &str) -> &str {
    // The prefixes are ASCII except for a byte order mark, so the rest begins at a character boundary.
    let rest = LINES.prefixes.regex().find(text.as_bytes()).and_then(|prefix| text.get(prefix.end()..)).unwrap_or(text);
    // `#9 ERROR: …` of an image build.
    let numbered = rest.strip_prefix('#').map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    numbered.and_then(|rest| rest.strip_prefix(' ')).filter(|rest| rest.starts_with("ERROR")).unwrap_or(rest)
}

/// Whether the second line seems to continue the first, wrapped by a terminal or a library at a usual width.
pub(super) fn continues(first: &str, second: &str) -> bool {
    let length = first.chars().count();
    if !(72..=200).contains(&length) || first.ends_with(['.', ':', ';', '!', '?', ')', '}']) {
        return false;
    }
    let start = second.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '│' | '|' | '┃'));
    let word = start.split(' ').next().unwrap_or_default();
    let begins_anew = !start.starts_with(|c: char| c.is_lowercase() || matches!(c, '/' | '\'' | '"' | '`' | '('));
    if word.is_empty() || begins_anew || first.split_whitespace().next() == Some(word) {
        return false;
    }
    let word = word.chars().count();
    WIDTHS.iter().any(|width| length <= *width && length + 1 + word > *width)
}

/// The widths at which terminals and libraries wrap.
const WIDTHS: &[usize] = &[78, 79, 80, 100, 119, 120, 132, 160];

/// Joins the two lines.
pub(super) fn joined(first: &str, second: &str) -> String {
    let start = second.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '│' | '|' | '┃'));
    format!("{} {start}", first.trim_end())
}

/// Equal for lines that differ only in numbers, times, hashes and whitespace. Zero is different from other numbers: `0
/// failed` and `3 failed` do not mean the same.
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

/// The length of the number at the beginning of the text, or 0; and whether it consists only of zeros.
fn number_at(text: &str) -> (usize, bool) {
    let mut end = 0;
    let mut zero = true;
    loop {
        let word = &text[end..end + word_at(&text[end..])];
        if !word.bytes().any(|byte| byte.is_ascii_digit()) {
            // The last separator belongs to the next token.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(line: &str) -> Vec<String> {
        let mut pieces = Vec::new();
        each_piece(line, &mut |piece| pieces.push(piece.to_owned()));
        pieces
    }

    #[test]
    fn prefixes_of_tools_are_removed() {
        for prefixed in [
            "2026-03-02T08:11:09.1142345Z error: no",
            "[2026-03-02 08:11:09 +0000] error: no",
            "2026/03/02 08:11:09 error: no",
            "2026-03-02T08:11:09.114234Z 01E error: no",
            "2026-03-02T08:11:09.114234567Z stderr F error: no",
            "build\tRun tests\t2026-03-02T08:11:09.1142345Z error: no",
            "error\t02-Mar-2026 08:11:09\terror: no",
            "Mar  2 08:11:09 web-1 shop[812]: error: no",
            "02/Mar/2026:08:11:09 error: no",
            "[91022.123456] error: no",
            "1772439069.114 error: no",
            "#12 41.220 error: no",
            "41.22 error: no",
            "web-1  | error: no",
            "web    | error: no",
            "08:11:09 web.1  | error: no",
            "[pod/web-7c9d/app] error: no",
            "@acme/web:build: error: no",
            "packages/web build: error: no",
            "2026-03-02T08:11:09Z ##[error]error: no",
            "::error file=src/a.js,line=3,col=9::error: no",
            "::error::error: no",
            "##vso[task.logissue type=error]error: no",
            "section_start:1772439069:build\r\u{1b}[0Kerror: no",
            "\u{1b}[36m[08:11:09]\u{1b}[0m error: no",
        ] {
            assert_eq!(cleaned(prefixed), "error: no", "{prefixed}");
        }
        assert_eq!(cleaned("41 |   error: no"), "41 |   error: no");
        assert_eq!(cleaned("#9 ERROR: no"), "ERROR: no");
        assert_eq!(cleaned("#9 [2/4] RUN make"), "#9 [2/4] RUN make");
    }

    #[test]
    fn every_piece_of_a_line_is_examined() {
        assert_eq!(pieces("10%\rerror: no\r100%"), ["10%", "error: no", "100%"]);
        let structured = r#"{"log":"one \"two\"\nthree\n","stream":"stderr"}"#;
        assert_eq!(pieces(structured)[1..], ["one \"two\"", "three", "stderr"]);
        assert!(pieces(r#"fatal: [web]: FAILED! => {"msg": "a\nE: no"}"#).contains(&"E: no\"}".to_owned()));
        assert_eq!(pieces(r"cd C:\new"), [r"cd C:\new"]);
        let long = format!("{}needle{}", "ä".repeat(100_000), "x".repeat(100_000));
        let found = pieces(&long);
        assert!(found.len() > 80 && found.iter().any(|piece| piece.contains("needle")));
        assert!(found.iter().all(|piece| piece.len() <= WINDOW_BYTES));
        let index = found.iter().position(|piece| piece.contains("needle")).unwrap_or_default();
        assert_eq!(piece(&long, index), found[index]);
    }

    #[test]
    fn a_wrapped_line_continues_and_others_do_not() {
        let wrapped = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on";
        assert!(continues(wrapped, "device"));
        assert!(!continues(wrapped, "Device"));
        assert!(!continues("short", "device"));
        assert!(!continues(&"x ".repeat(44), "device"));
        assert_eq!(joined("│ no space left on", "│ device"), "│ no space left on device");
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
