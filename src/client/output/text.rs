//! Text that others chose, made harmless for a terminal.

/// The text in one line, without characters that would move the cursor, change colours or reorder what is shown.
pub fn harmless(text: &str) -> String {
    text.chars().map(|character| if is_harmful(character) { replacement(character) } else { character }).collect()
}

/// The same for text of several lines, which it keeps.
pub fn harmless_lines(text: &str) -> String {
    let kept = |character: char| character == '\n' || character == '\t' || !is_harmful(character);
    text.chars().map(|character| if kept(character) { character } else { replacement(character) }).collect()
}

fn replacement(character: char) -> char {
    if matches!(character, '\n' | '\r' | '\t') { ' ' } else { char::REPLACEMENT_CHARACTER }
}

fn is_harmful(character: char) -> bool {
    // Control characters, and those that change the direction of the text around them.
    let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns || matches!(character, '\u{2028}' | '\u{2029}')
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
