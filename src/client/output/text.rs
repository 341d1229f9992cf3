//! Text on a terminal: reads it from the server's data, makes other people's text harmless, and adds colours, which carry
//! no extra information.

use serde_json::Value;

/// The text of a field; empty if it is null or missing.
pub fn text_of<'a>(data: &'a Value, field: &str) -> &'a str {
    data.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Like [`text_of`], made harmless for a terminal.
pub fn shown_of(data: &Value, field: &str) -> String {
    harmless(text_of(data, field))
}

/// `: ` and the text of a field; empty if there is none.
pub fn after_colon(data: &Value, field: &str) -> String {
    let text = shown_of(data, field);
    if text.is_empty() { text } else { format!(": {text}") }
}

/// The items of a list; none if it is not one.
pub fn items_of(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The text in one line, without characters that would move the cursor, change colours or reorder text.
pub fn harmless(text: &str) -> String {
    text.chars().map(|character| if is_harmful(character) { replacement(character) } else { character }).collect()
}

/// Like [`harmless`], but keeps line breaks and tabs.
pub fn harmless_lines(text: &str) -> String {
    let kept = |character: char| character == '\n' || character == '\t' || !is_harmful(character);
    text.chars().map(|character| if kept(character) { character } else { replacement(character) }).collect()
}

fn replacement(character: char) -> char {
    if matches!(character, '\n' | '\r' | '\t') { ' ' } else { char::REPLACEMENT_CHARACTER }
}

fn is_harmful(character: char) -> bool {
    character.is_control() || is_turning(character) || matches!(character, '\u{2028}' | '\u{2029}')
}

/// Whether the character changes the direction of the text around it.
pub fn is_turning(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    #[default]
    Plain,
    /// Free, succeeded.
    Good,
    /// Failed, lost.
    Bad,
    /// Locked, waiting for somebody.
    Busy,
    /// Less important.
    Dim,
    Strong,
}

impl Style {
    /// The style for a status in the API: of an environment, a session, a deployment, a stage, an approval or a
    /// pipeline.
    pub fn of_status(status: &str) -> Self {
        match status {
            "unlocked" | "active" | "succeeded" | "approved" | "completed" => Style::Good,
            "failed" | "overridden" | "expired" | "disabled" | "rejected" | "stopped" => Style::Bad,
            "locked" | "resetting" | "queued" | "running" | "awaiting_approval" | "cancelling" | "pending" => {
                Style::Busy
            }
            "released" | "cancelled" | "skipped" => Style::Dim,
            _ => Style::Plain,
        }
    }
}

/// The text in its colour, or unchanged.
pub fn paint(text: &str, style: Style, colour: bool) -> String {
    let code = match style {
        Style::Plain => return text.to_owned(),
        Style::Good => "32",
        Style::Bad => "31",
        Style::Busy => "33",
        Style::Dim => "2",
        Style::Strong => "1",
    };
    if colour && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(harmless("a\u{1b}[31mb\r\nc\td\u{9b}e\u{202e}f"), "a\u{fffd}[31mb  c d\u{fffd}e\u{fffd}f");
        assert_eq!(harmless_lines("a\u{1b}b\nc\td"), "a\u{fffd}b\nc\td");
        assert_eq!(harmless("Grüße 環境 🚀"), "Grüße 環境 🚀");
    }
}
