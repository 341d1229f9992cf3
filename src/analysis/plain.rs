//! Text as a terminal would show it: without escape sequences and other characters that are not text.

use std::borrow::Cow;

/// Removes escape sequences, including those that a tool has already made readable (`\x1b[31m`, `^[[31m`), and control
/// characters except tabs and carriage returns.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(is_suspect) {
        return Cow::Borrowed(text);
    }
    let spelled = SPELLED.iter().any(|spelling| text.contains(spelling));
    let bare = text.contains("[0m");
    if !spelled && !bare && !text.chars().any(is_no_text) {
        return Cow::Borrowed(text);
    }
    let mut text = Cow::Borrowed(text);
    for spelling in SPELLED.iter().filter(|_| spelled) {
        text = Cow::Owned(text.replace(spelling, "\u{1b}"));
    }
    Cow::Owned(without_escapes(&text, bare))
}

/// The final part of a line on a terminal: the text that carriage returns have not overwritten.
pub(super) fn last_shown(line: &str) -> Cow<'_, str> {
    let line = line.trim_end();
    let part = line.rsplit('\r').map(plain).find(|part| !part.trim().is_empty());
    part.unwrap_or_default()
}

/// Readable spellings of the escape character.
const SPELLED: &[&str] = &["\\x1b", "\\u001b", "\\033", "\\e[", "^["];

/// Every escape sequence and every control character contains such a byte; control characters beyond ASCII begin with
/// the last one here.
fn is_suspect(byte: u8) -> bool {
    (byte < b' ' && !matches!(byte, b'\t' | b'\r')) || matches!(byte, b'[' | 0x7f | 0xc2)
}

fn is_no_text(character: char) -> bool {
    character.is_control() && !matches!(character, '\t' | '\r')
}

fn without_escapes(text: &str, bare: bool) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        rest = match character {
            '\u{1b}' => after_escape(after),
            // The colour of a sequence that has lost its escape character.
            '[' if bare => after_colour(after).unwrap_or_else(|| {
                kept.push(character);
                after
            }),
            character if is_no_text(character) => after,
            character => {
                kept.push(character);
                after
            }
        };
    }
    kept
}

/// The text after an escape sequence whose escape character has been consumed.
fn after_escape(text: &str) -> &str {
    let mut characters = text.chars();
    let after = |end: Option<usize>, length: usize| end.map_or("", |end| &text[end + length..]);
    match characters.next() {
        // A control sequence ends with a letter (or `@`, `~`…).
        Some('[') => after(text[1..].find(|c: char| ('@'..='~').contains(&c)).map(|end| end + 1), 1),
        // Commands and strings for the terminal end with a bell or with another escape sequence.
        Some(']' | 'P' | '_' | '^' | 'X') => match text.find(['\u{7}', '\u{1b}']) {
            Some(end) if text[end..].starts_with("\u{1b}\\") => &text[end + 2..],
            Some(end) if text[end..].starts_with('\u{7}') => &text[end + 1..],
            Some(end) => &text[end..],
            None => "",
        },
        // A character set.
        Some('(' | ')' | '#' | '%') => text.char_indices().nth(2).map_or("", |(at, _)| &text[at..]),
        Some(_) | None => characters.as_str(),
    }
}

fn after_colour(text: &str) -> Option<&str> {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    let is_colour = digits > 0 && text[digits..].starts_with(['m', 'K']);
    is_colour.then(|| &text[digits + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_a_terminal_would_not_show_is_removed() {
        for (written, shown) in [
            ("\u{1b}[31merror\u{1b}[0m: no", "error: no"),
            ("\u{1b}]0;title\u{7}text \u{1b}[2K", "text "),
            ("\u{1b}]8;;https://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}_bk;t=1700000000000\u{7}$ make", "$ make"),
            ("\u{1b}(Bplain\u{1b}=", "plain"),
            ("\\x1b[1mbold\\x1b[0m and ^[[31mred^[[0m", "bold and red"),
            ("[31;1merror[0m [a] [1]", "error [a] [1]"),
            ("nul\u{0} and bell\u{7}, and\u{80} more", "nul and bell, and more"),
            ("\u{1b}[31", ""),
            ("a[0] = [1m", "a[0] = [1m"),
        ] {
            assert_eq!(plain(written), shown, "{written:?}");
        }
        assert_eq!(last_shown("10%\r55%\rdone\r\n"), "done");
    }
}
