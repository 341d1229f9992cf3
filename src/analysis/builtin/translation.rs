//! Translates messages from other languages into the English ones that the catalogue knows. `catalogues.txt` is
//! generated from the translation catalogues of programs (`collect`); `others.txt` has further messages. In both, an
//! English message precedes those of other languages, and `{1}` stands for the variable part.

use std::sync::LazyLock;

use crate::catalogue::TRANSLATIONS;

/// One message in another language: its literal parts, separated by variable texts.
pub(super) struct ForeignMessage {
    /// A text that every line with this message contains.
    pub trigger: &'static str,
    parts: Vec<String>,
    /// The numbers of the variable texts between the parts.
    named: Vec<usize>,
    english: &'static str,
}

pub(super) static MESSAGES: LazyLock<Vec<ForeignMessage>> = LazyLock::new(|| {
    let mut english = "";
    let mut messages = Vec::new();
    for line in TRANSLATIONS.iter().flat_map(|file| file.text.lines()).filter(|line| !line.starts_with('#')) {
        match line.strip_prefix('\t') {
            Some(foreign) => messages.extend(ForeignMessage::new(english, foreign)),
            None => english = line,
        }
    }
    messages
});

/// The maximum length of a variable text.
const NAMED_BYTES_MAX: usize = 300;

impl ForeignMessage {
    fn new(english: &'static str, foreign: &'static str) -> Option<Self> {
        let (mut parts, mut named, mut rest) = (Vec::new(), Vec::new(), foreign);
        let mut literal = Vec::new();
        while let Some((before, after)) = rest.split_once('{') {
            let (number, after) = after.split_once('}')?;
            literal.push(before);
            named.push(number.parse().ok()?);
            rest = after;
        }
        literal.push(rest);
        parts.extend(literal.iter().map(|part| usual(part)));
        // Without the characters that have several spellings.
        let words = literal.iter().flat_map(|part| part.split(['\u{a0}', '\u{202f}', '’']));
        let trimmed = words.clone().map(|part| part.trim_matches([' ', ':'])).max_by_key(|part| part.len())?;
        // `erro` would be found in every error.
        let trigger = if trimmed.len() > 5 { trimmed } else { words.max_by_key(|part| part.len())? };
        Some(Self { trigger, parts, named, english })
    }

    /// The line with this message replaced by the English one; None if the line does not contain it.
    fn translated(&self, line: &str) -> Option<String> {
        let first = self.parts.iter().position(|part| !part.is_empty())?;
        let start = line.find(&self.parts[first])?;
        let mut end = start + self.parts[first].len();
        let mut named: Vec<(usize, &str)> = Vec::new();
        for (index, part) in self.parts.iter().enumerate().skip(first + 1) {
            // A variable text at the end stays in the line.
            if part.is_empty() {
                break;
            }
            let length = line[end..].find(part).filter(|length| *length <= NAMED_BYTES_MAX)?;
            named.push((self.named[index - 1], &line[end..end + length]));
            end += length + part.len();
        }
        let mut english = self.english.to_owned();
        for number in &self.named {
            let text = named.iter().find(|(named, _)| named == number).map_or("", |(_, text)| text);
            english = english.replace(&format!("{{{number}}}"), text.trim());
        }
        Some(format!("{}{english}{}", &line[..start], &line[end..]))
    }
}

/// The line with these messages translated into English.
pub(super) fn translated(line: &str, messages: &[usize]) -> String {
    let mut line = usual(line);
    // A longer message may contain a shorter one.
    let mut messages: Vec<&ForeignMessage> = messages.iter().map(|index| &MESSAGES[*index]).collect();
    messages.sort_by_key(|message| std::cmp::Reverse(message.trigger.len()));
    for message in messages {
        line = message.translated(&line).unwrap_or(line);
    }
    line
}

/// The text with plain spaces and apostrophes.
fn usual(text: &str) -> String {
    text.replace(['\u{a0}', '\u{202f}'], " ").replace('’', "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_translated_with_what_they_name() {
        let in_english = |line: &str| {
            let known = MESSAGES.iter().enumerate().filter(|(_, message)| line.contains(message.trigger));
            translated(line, &known.map(|(index, _)| index).collect::<Vec<_>>())
        };
        for (foreign, english) in [
            ("cat: x.txt: Datei oder Verzeichnis nicht gefunden", "cat: x.txt: No such file or directory"),
            ("bash: line 1: foo : commande introuvable", "bash: line 1: foo: command not found"),
            ("bash: foo\u{a0}: commande introuvable", "bash: foo: command not found"),
            ("deploy.sh: строка 3: kubectl: команда не найдена", "deploy.sh: строка 3: kubectl: command not found"),
            ("KONFLIKT (Inhalt): Merge-Konflikt in src/a.rs", "CONFLICT (Inhalt): Merge conflict in src/a.rs"),
            (
                "psql: FATAL:  Passwort-Authentifizierung für Benutzer »app« fehlgeschlagen",
                "psql: FATAL:  password authentication failed for user \"app\"",
            ),
            ("a.c:3:5: Fehler: »n« nicht deklariert", "a.c:3:5: error: »n« nicht deklariert"),
            ("write: 设备上没有空间", "write: No space left on device"),
        ] {
            assert_eq!(in_english(foreign), english);
        }
    }

    #[test]
    fn every_trigger_is_long_enough_to_mean_something() {
        for message in MESSAGES.iter() {
            assert!(message.trigger.len() >= 5, "{:?} of {:?}", message.trigger, message.english);
        }
        assert!(MESSAGES.len() > 3_000, "{}", MESSAGES.len());
    }
}
