//! The output of programs, for a terminal: their colours stay, everything else that a terminal would obey goes.

/// A line without what would move the cursor, clear the screen, set the title or the like. Of a line that was overwritten
/// (`10%\r20%\r`), the last state stays, as a terminal would show it.
pub fn shown(line: &str, colour: bool) -> String {
    let line = line.trim_end_matches('\r');
    let line = line.rsplit('\r').next().unwrap_or(line);
    let mut text = String::with_capacity(line.len());
    let mut is_coloured = false;
    let mut rest = line.chars();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => {
                let (sequence, after) = escape(rest.as_str());
                rest = after.chars();
                if let (Some(sequence), true) = (sequence, colour) {
                    text.push_str("\u{1b}[");
                    text.push_str(sequence);
                    is_coloured = true;
                }
            }
            '\t' => text.push('\t'),
            _ if turns(character) => text.push(char::REPLACEMENT_CHARACTER),
            _ if character.is_control() => {}
            _ => text.push(character),
        }
    }
    if is_coloured {
        text.push_str("\u{1b}[0m");
    }
    text
}

/// Those that change the direction of the text around them.
fn turns(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Splits the text after an escape character: the colour without its `[`, if it is one, and the rest of the line.
fn escape(text: &str) -> (Option<&str>, &str) {
    if let Some(control) = text.strip_prefix('[') {
        let end = control.find(|character: char| ('\u{40}'..='\u{7e}').contains(&character));
        let Some(end) = end else { return (None, "") };
        let (sequence, after) = control.split_at(end + 1);
        let parameters = sequence.strip_suffix('m');
        let is_colour =
            parameters.is_some_and(|all| all.bytes().all(|byte| byte.is_ascii_digit() || b";:".contains(&byte)));
        return (is_colour.then_some(sequence), after);
    }
    // Strings for the terminal, like titles and links: until their end, or that of the line.
    if let Some(string) = text.strip_prefix([']', 'P', 'X', '^', '_']) {
        let end = string.find(['\u{7}', '\u{1b}', '\u{9c}']);
        let after = end.map_or("", |end| &string[end..]);
        let after = after.strip_prefix("\u{1b}\\").or(after.strip_prefix(['\u{7}', '\u{9c}'])).unwrap_or(after);
        return (None, after);
    }
    let mut after = text.chars();
    after.next();
    (None, after.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_stay_and_end_with_their_line() {
        assert_eq!(shown("\u{1b}[1;31mfailed\u{1b}[m here", true), "\u{1b}[1;31mfailed\u{1b}[m here\u{1b}[0m");
        assert_eq!(shown("\u{1b}[1;31mfailed\u{1b}[m here", false), "failed here");
    }

    #[test]
    fn nothing_else_reaches_the_terminal() {
        for (line, left) in [
            ("a\u{1b}[2Jb", "ab"),
            ("a\u{1b}[10;10Hb", "ab"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\u{1b}]8;;https://x\u{1b}\\link\u{1b}]8;;\u{1b}\\b", "alinkb"),
            ("a\u{1b}]52;c;x", "a"),
            ("a\u{1b}Pq\u{9c}b", "ab"),
            ("a\u{1b}cb", "ab"),
            ("a\u{1b}[?25lb\u{8}\u{0}", "ab"),
            ("a\u{1b}[>1mb", "ab"),
            ("a\u{1b}[31", "a"),
            ("a\u{1b}", "a"),
            ("a\u{9b}2Jb", "a2Jb"),
            ("a\u{202e}b", "a\u{fffd}b"),
            ("a\tb", "a\tb"),
        ] {
            assert_eq!(shown(line, true), left, "{line:?}");
        }
    }

    #[test]
    fn of_a_line_that_was_overwritten_the_last_state_is_shown() {
        assert_eq!(shown("10%\r50%\r100%\r", true), "100%");
        assert_eq!(shown("done\r", true), "done");
    }
}
