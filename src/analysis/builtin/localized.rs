//! Messages of libc, bash, coreutils, git and a few more in other languages, put into English, which the signatures know.
//! The table is made from the translation catalogues of these programs (`localized/collect`).

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

const MESSAGES: &str = include_str!("localized/messages.txt");
/// What varies in a message, such as a path; at most once.
const HOLE: &str = "%s";
/// Bytes of what stands in a hole.
const FILLING_BYTES_MAX: usize = 1024;
/// Places of one line that are looked at: a line with more is no message.
const PLACES_MAX: usize = 64;

static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

/// `None` if the line has no known message of another language; otherwise the line with the English ones instead.
pub(super) fn in_english(line: &str) -> Option<Cow<'_, str>> {
    let anchors = if line.is_ascii() { &TABLE.ascii } else { &TABLE.all };
    let mut places: Vec<(usize, usize)> = anchors
        .find_overlapping_iter(line)
        .take(PLACES_MAX)
        .map(|found| (found.start(), found.pattern().as_usize()))
        .collect();
    // The longest message of a place first.
    places.sort_by_key(|(start, slot)| (*start, std::cmp::Reverse(TABLE.messages[*slot].anchor().len())));
    let mut text = String::new();
    let mut kept_to = 0;
    for (at, slot) in places {
        let message = &TABLE.messages[slot];
        let Some((start, end, filling)) = message.span(line, kept_to, at) else { continue };
        let (before, after) = message.english;
        text.extend([&line[kept_to..start], before, filling, after]);
        kept_to = end;
    }
    if kept_to == 0 {
        return None;
    }
    text.push_str(&line[kept_to..]);
    Some(Cow::Owned(text))
}

/// The messages, those with an ASCII anchor first; and the automata that find the anchors.
struct Table {
    messages: Vec<Message>,
    all: AhoCorasick,
    /// Of the ASCII ones alone: smaller, for most lines.
    ascii: AhoCorasick,
}

impl Table {
    fn new() -> Self {
        let (mut messages, others): (Vec<Message>, Vec<Message>) =
            messages().partition(|message| message.anchor().is_ascii());
        let automaton = |messages: &[Message]| {
            let automaton = AhoCorasick::new(messages.iter().map(Message::anchor));
            automaton.expect("the messages are constants, which a test compiles")
        };
        let ascii = automaton(&messages);
        messages.extend(others);
        Self { all: automaton(&messages), ascii, messages }
    }
}

/// A translation and its English message, each as the texts before and after the hole, if they have one.
#[derive(Clone, Copy)]
struct Message {
    english: (&'static str, &'static str),
    other: (&'static str, &'static str),
    has_hole: bool,
}

fn messages() -> impl Iterator<Item = Message> {
    let mut english = "";
    MESSAGES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).filter_map(move |line| {
        if let Some(message) = line.strip_prefix("= ") {
            english = message;
            return None;
        }
        let parts = |text: &'static str| text.split_once(HOLE).unwrap_or((text, ""));
        Some(Message { english: parts(english), other: parts(line), has_hole: line.contains(HOLE) })
    })
}

impl Message {
    fn anchor(&self) -> &'static str {
        let (before, after) = self.other;
        if before.len() >= after.len() { before } else { after }
    }

    /// Start and end of the message whose anchor begins at a place of the line, and what stands in its hole. It begins
    /// at or after `from`, and is no part of longer words.
    fn span<'a>(&self, line: &'a str, from: usize, anchor_at: usize) -> Option<(usize, usize, &'a str)> {
        if anchor_at < from {
            return None;
        }
        let (before, after) = self.other;
        let (start, filled_from, filled_to) = if !self.has_hole {
            (anchor_at, anchor_at + before.len(), anchor_at + before.len())
        } else if before.len() >= after.len() {
            let filled_from = anchor_at + before.len();
            let within = &line[filled_from..line.floor_char_boundary(filled_from + FILLING_BYTES_MAX)];
            let filling = if after.is_empty() { within.len() } else { within.find(after)? };
            (anchor_at, filled_from, filled_from + filling)
        } else {
            let earliest = from.max(line.ceil_char_boundary(anchor_at.saturating_sub(FILLING_BYTES_MAX)));
            // Without a text before it, what varies is the word that ends here.
            let start = match before {
                "" => {
                    let text = line[earliest..anchor_at].trim_end();
                    earliest + text.len() - text.rsplit(char::is_whitespace).next().unwrap_or_default().len()
                }
                before => earliest + line[earliest..anchor_at].rfind(before)?,
            };
            (start, start + before.len(), anchor_at)
        };
        let end = filled_to + if self.has_hole { after.len() } else { 0 };
        (is_border(line, start) && is_border(line, end)).then(|| (start, end, &line[filled_from..filled_to]))
    }
}

/// Whether no word of an alphabet goes on across this place. Other scripts do not separate words.
fn is_border(line: &str, at: usize) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() && (c as u32) < 0x0600;
    let before = line[..at].chars().next_back().is_some_and(is_letter);
    let after = line[at..].chars().next().is_some_and(is_letter);
    !(before && after)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn english(line: &str) -> String {
        in_english(line).unwrap_or_else(|| panic!("not recognised: {line}")).into_owned()
    }

    #[test]
    fn messages_of_many_languages_are_put_into_english() {
        for (line, expected) in [
            ("cat: x.toml: Datei oder Verzeichnis nicht gefunden", "cat: x.toml: No such file or directory"),
            ("cat: x.toml: Aucun fichier ou dossier de ce type", "cat: x.toml: No such file or directory"),
            ("cat: x.toml: Nie ma takiego pliku ani katalogu", "cat: x.toml: No such file or directory"),
            ("cat: x.toml: Нет такого файла или каталога", "cat: x.toml: No such file or directory"),
            ("cat: x.toml: そのようなファイルやディレクトリはありません", "cat: x.toml: No such file or directory"),
            ("cat: x.toml: 没有那个文件或目录", "cat: x.toml: No such file or directory"),
            ("bash: jq: Kommando nicht gefunden.", "bash: jq: command not found"),
            ("bash: jq : commande introuvable", "bash: jq : command not found"),
            ("bash: jq: orden no encontrada", "bash: jq: command not found"),
            ("curl: (7) Verbindungsaufbau abgelehnt", "curl: (7) Connection refused"),
            ("write: No queda espacio en el dispositivo", "write: No space left on device"),
            ("touch: /etc/x: Keine Berechtigung", "touch: /etc/x: Permission denied"),
        ] {
            assert_eq!(english(line), expected);
        }
    }

    #[test]
    fn what_varies_within_a_message_is_kept() {
        let german = "cp: der Aufruf von stat für 'a.js' ist nicht möglich: Datei oder Verzeichnis nicht gefunden";
        assert_eq!(english(german), "cp: cannot stat 'a.js': No such file or directory");
        assert_eq!(
            english("cp: 对 'a.js' 调用 stat 失败: 没有那个文件或目录"),
            "cp: cannot stat 'a.js': No such file or directory"
        );
    }

    #[test]
    fn lines_in_english_and_parts_of_words_are_left_alone() {
        for line in [
            "",
            "cat: x.toml: No such file or directory",
            "error: could not compile `shop`",
            "bash: jq: command not found",
            "Verbindungsaufbau abgelehntes",
            "fatal: Authentication failed for 'https://git.example/a.git/'",
            "コマンド",
        ] {
            assert_eq!(in_english(line), None, "{line}");
        }
    }

    #[test]
    fn every_message_of_the_table_is_recognised() {
        let filled = |(before, after): (&str, &str), has_hole: bool| {
            if has_hole { format!("{before}a.txt{after}") } else { before.to_owned() }
        };
        let mut count = 0;
        for message in messages() {
            assert!(message.anchor().len() >= 6, "{:?}", message.other);
            let line = format!("x: {}", filled(message.other, message.has_hole));
            assert_ne!(english(&line), line);
            count += 1;
        }
        assert!(count > 2_000, "{count}");
    }

    #[test]
    fn a_long_line_is_read_once() {
        let line = "Datei oder Verzeichnis nicht gefunden ".repeat(100_000);
        assert!((1..=PLACES_MAX).contains(&english(&line).matches("No such file or directory").count()));
        let line = format!("der Aufruf von stat für {} ist nicht möglich", "x".repeat(100_000));
        assert_eq!(in_english(&line), None);
    }

    proptest! {
        #[test]
        fn any_line_is_taken(line in "\\PC{0,80}", at in 0..3000usize, cut in 0..200usize) {
            in_english(&line);
            let known = MESSAGES.lines().nth(at).unwrap_or_default();
            let cut = known.floor_char_boundary(cut);
            in_english(&format!("{line}{}{line}", &known[..cut]));
            in_english(&format!("{}{line}", &known[cut..]));
        }
    }
}
