//! Texts from outside. The check and the pattern of the API's schema are both derived from one [`TextRule`]. Values of
//! types with a rule are always valid, so inner code does not check again.

use std::borrow::Borrow;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Why a text is refused, as the end of a sentence that begins with the field's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// A rule for permitted texts.
#[derive(Debug)]
pub struct TextRule {
    pub length: RangeInclusive<usize>,
    pub unit: Unit,
    pub first: CharClass,
    pub rest: CharClass,
    pub reserved: Reserved,
    /// The end of a sentence that begins with the field's name.
    pub message: &'static str,
}

/// The unit of the length. In an ASCII class both units are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Characters,
    Bytes,
}

/// Texts that are refused although their characters are permitted.
#[derive(Debug, Clone, Copy)]
pub enum Reserved {
    Nothing,
    Prefix(&'static str),
    /// In any letter case.
    Words(&'static [&'static str]),
}

/// A set of characters, defined by the text of a regular expression's `[…]`.
#[derive(Debug, Clone, Copy)]
pub struct CharClass {
    text: &'static str,
    /// Which of the characters up to `\u00ff` are in the set.
    low: [u64; 4],
    /// Whether all higher characters are in the set.
    high: bool,
}

impl TextRule {
    /// A rule with the same class for every character.
    pub const fn of(length: RangeInclusive<usize>, class: CharClass, message: &'static str) -> Self {
        Self { length, unit: Unit::Characters, first: class, rest: class, reserved: Reserved::Nothing, message }
    }

    pub const fn in_bytes(self) -> Self {
        Self { unit: Unit::Bytes, ..self }
    }

    const fn starting_with(self, first: CharClass) -> Self {
        Self { first, ..self }
    }

    pub const fn reserving(self, reserved: Reserved) -> Self {
        Self { reserved, ..self }
    }

    pub fn check(&self, text: &str) -> Result<(), Malformed> {
        if self.allows(text) { Ok(()) } else { Err(Malformed(self.message)) }
    }

    pub fn parse(&self, text: &str) -> Result<Arc<str>, Malformed> {
        self.check(text).map(|()| Arc::from(text))
    }

    fn allows(&self, text: &str) -> bool {
        let mut characters = text.chars();
        self.allows_length(text)
            && characters.next().is_none_or(|first| self.first.contains(first))
            && characters.all(|character| self.rest.contains(character))
            && !self.reserved.contains(text)
    }

    fn allows_length(&self, text: &str) -> bool {
        let length = match self.unit {
            // A text has at most as many characters as bytes, so most texts need not be counted.
            Unit::Characters if text.len() > *self.length.end() => text.chars().count(),
            Unit::Characters => text.chars().take(*self.length.start()).count(),
            Unit::Bytes => text.len(),
        };
        self.length.contains(&length)
    }

    /// For the schema; none if every character is permitted.
    pub fn pattern(&self) -> Option<String> {
        let (first, rest) = (self.first.text, self.rest.text);
        if rest == CharClass::ANY.text {
            return None;
        }
        let reserved = self.reserved.pattern();
        let (min, max) = (self.length.start(), self.length.end());
        Some(if !self.pattern_has_length() {
            let count = if *min == 0 { "*" } else { "+" };
            format!("^{reserved}[{rest}]{count}$")
        } else if first == rest {
            format!("^{reserved}[{rest}]{{{min},{max}}}$")
        } else {
            format!("^{reserved}[{first}][{rest}]{{{},{}}}$", min.saturating_sub(1), max - 1)
        })
    }

    /// For the schema, unless the pattern contains the length.
    pub fn min_length(&self) -> Option<usize> {
        let min = *self.length.start();
        (min > 0 && !self.pattern_has_length()).then_some(min)
    }

    /// For the schema, unless the pattern contains the length. For a rule in bytes this is the maximum possible number
    /// of characters.
    pub fn max_length(&self) -> Option<usize> {
        (!self.pattern_has_length()).then_some(*self.length.end())
    }

    /// Classes of a few characters are short enough to be counted in the pattern.
    fn pattern_has_length(&self) -> bool {
        !self.rest.high
    }
}

impl Reserved {
    fn contains(self, text: &str) -> bool {
        match self {
            Reserved::Nothing => false,
            Reserved::Prefix(prefix) => text.starts_with(prefix),
            Reserved::Words(words) => words.iter().any(|word| word.eq_ignore_ascii_case(text)),
        }
    }

    fn pattern(self) -> String {
        match self {
            Reserved::Nothing => String::new(),
            Reserved::Prefix(prefix) => format!("(?!{prefix})"),
            Reserved::Words(words) => {
                let words: Vec<String> = words.iter().map(|word| word.chars().map(either_case).collect()).collect();
                format!("(?!({})$)", words.join("|"))
            }
        }
    }
}

fn either_case(character: char) -> String {
    if character.is_ascii_alphabetic() {
        format!("[{}{}]", character.to_ascii_uppercase(), character.to_ascii_lowercase())
    } else {
        character.to_string()
    }
}

impl CharClass {
    pub const ANY: CharClass = CharClass::new("^");
    pub const VISIBLE: CharClass = CharClass::new("!-~");
    pub const NO_NUL: CharClass = CharClass::new(r"^\u0000");
    pub const NO_CONTROL: CharClass = CharClass::new(r"^\u0000-\u001f\u007f-\u009f");

    /// Characters and ranges of ASCII, `\t` and `\u00xx`. A leading `^` means all others. A literal `-` is last.
    pub const fn new(text: &'static str) -> Self {
        let bytes = text.as_bytes();
        let inverted = !bytes.is_empty() && bytes[0] == b'^';
        let mut low = [0_u64; 4];
        let mut at = if inverted { 1 } else { 0 };
        while at < bytes.len() {
            let (first, after) = read_character(bytes, at);
            let (last, after) = if after + 1 < bytes.len() && bytes[after] == b'-' {
                read_character(bytes, after + 1)
            } else {
                (first, after)
            };
            assert!(first <= last, "a range goes upward");
            let mut code = first as usize;
            while code <= last as usize {
                low[code / 64] |= 1 << (code % 64);
                code += 1;
            }
            at = after;
        }
        if inverted {
            low = [!low[0], !low[1], !low[2], !low[3]];
        }
        Self { text, low, high: inverted }
    }

    pub const fn contains(&self, character: char) -> bool {
        let code = character as usize;
        if code < 256 { self.low[code / 64] >> (code % 64) & 1 == 1 } else { self.high }
    }
}

/// The character at an index, and the index of the next one.
const fn read_character(bytes: &[u8], at: usize) -> (u8, usize) {
    match bytes[at] {
        b'\\' => match bytes[at + 1] {
            b't' => (b'\t', at + 2),
            b'u' => {
                assert!(bytes[at + 2] == b'0' && bytes[at + 3] == b'0', "only characters up to \\u00ff");
                (hex_digit(bytes[at + 4]) * 16 + hex_digit(bytes[at + 5]), at + 6)
            }
            _ => panic!("an escape that is not \\t or \\u00xx"),
        },
        byte => {
            assert!(byte.is_ascii(), "only ASCII stands in a class as it is");
            (byte, at + 1)
        }
    }
}

const fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => panic!("a hexadecimal digit in lower case"),
    }
}

macro_rules! bounded_text {
    ($(#[$doc:meta])* $name:ident, $rule:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub const RULE: TextRule = $rule;

            pub fn parse(text: &str) -> Result<Self, Malformed> {
                Self::RULE.parse(text).map(Self)
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }

            pub fn shared(&self) -> Arc<str> {
                self.0.clone()
            }
        }

        /// Allows lookups by plain text in maps with this key type.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

bounded_text! {
    /// The name of an organization, a pipeline or an environment, as in a path.
    Identifier,
    TextRule::of(
        1..=63,
        CharClass::new("A-Za-z0-9._-"),
        "must be 1 to 63 letters, digits, '.', '_' or '-', starting with a letter or digit",
    )
    .starting_with(CharClass::new("A-Za-z0-9"))
}
bounded_text! {
    /// A commit as the caller names it: a hash, a tag, or whatever the pipeline understands.
    CommitId, REVISION
}
bounded_text! {
    /// The reason for a claim, shown to others while the environment is taken.
    Context, PROSE
}
bounded_text! {
    /// The purpose of an environment.
    Description, PROSE
}
impl Default for Description {
    fn default() -> Self {
        Self(Arc::from(""))
    }
}

bounded_text! {
    /// The value of a label; its key is an [`Identifier`].
    LabelValue,
    TextRule::of(1..=63, CharClass::VISIBLE, "must be 1 to 63 visible ASCII characters without spaces")
}
bounded_text! {
    /// The name of an environment variable of a process.
    VariableName,
    TextRule::of(
        1..=63,
        CharClass::new("A-Za-z0-9_"),
        "must be 1 to 63 letters, digits or '_', not starting with a digit or with LOCKKEEPER_, which is reserved",
    )
    .starting_with(CharClass::new("A-Za-z_"))
    .reserving(Reserved::Prefix("LOCKKEEPER_"))
}
bounded_text! {
    VariableValue,
    TextRule::of(0..=4096, CharClass::NO_NUL, "must be at most 4096 characters, without NUL")
}

/// A commit, branch or tag. Programs must not mistake it for an option.
pub const REVISION: TextRule = TextRule::of(
    1..=128,
    CharClass::VISIBLE,
    "must be 1 to 128 visible ASCII characters without spaces, not starting with '-'",
)
.starting_with(CharClass::new("!-,.-~"));

/// A display name: of an organization, a pipeline, a token.
pub const NAME: TextRule =
    TextRule::of(1..=100, CharClass::NO_CONTROL, "must be 1 to 100 characters, without control characters");

const PROSE: TextRule = TextRule::of(
    0..=1024,
    CharClass::new(r"^\u0000-\u0008\u000b-\u001f\u007f-\u009f"),
    "must be at most 1024 characters, without control characters other than tab and newline",
);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::{CommitId, Context, Identifier, LabelValue, VariableName, VariableValue, pipeline};
    use testkit::patterns::pattern_without_lookahead;

    const RULES: [&TextRule; 12] = [
        &Identifier::RULE,
        &CommitId::RULE,
        &Context::RULE,
        &LabelValue::RULE,
        &VariableName::RULE,
        &VariableValue::RULE,
        &NAME,
        &pipeline::PROGRAM,
        &pipeline::ARGUMENT,
        &pipeline::METHOD,
        &pipeline::HEADER_NAME,
        &pipeline::HEADER_VALUE,
    ];

    /// Whether the pattern, the schema's lengths and the reserved texts together permit a text.
    fn schema_allows(rule: &TextRule, text: &str) -> bool {
        let pattern = pattern_without_lookahead(&rule.pattern().unwrap());
        let length = text.chars().count();
        regex::Regex::new(&pattern).unwrap().is_match(text)
            && rule.min_length().is_none_or(|min| length >= min)
            && rule.max_length().is_none_or(|max| length <= max)
            && !rule.reserved.contains(text)
    }

    proptest! {
        #[test]
        fn the_pattern_allows_what_the_check_allows(text in "[ -~\t\n\r\0\u{7f}\u{85}\u{a0}ä€]{0,4}|[a-zA-Z0-9._-]{0,140}") {
            for rule in RULES {
                prop_assert_eq!(rule.check(&text).is_ok(), schema_allows(rule, &text), "{:?} {:?}", text, rule);
            }
        }
    }

    #[test]
    fn the_longest_text_is_allowed_and_no_longer_one() {
        for rule in RULES {
            for (length, allowed) in [(*rule.length.end(), true), (rule.length.end() + 1, false)] {
                let text = "A".repeat(length);
                assert_eq!(rule.check(&text).is_ok(), allowed, "{length} {rule:?}");
                assert_eq!(schema_allows(rule, &text), allowed, "{length} {rule:?}");
            }
            assert_eq!(rule.check("").is_ok(), *rule.length.start() == 0, "{rule:?}");
        }
    }

    #[test]
    fn a_class_has_all_characters_beyond_the_first_256_or_none_of_them() {
        for character in ['\u{100}', '\u{101}', char::MAX] {
            assert!(CharClass::NO_NUL.contains(character) && !CharClass::VISIBLE.contains(character), "{character:?}");
        }
        assert!(CharClass::NO_NUL.contains('\u{ff}') && !CharClass::VISIBLE.contains('\u{ff}'));
    }

    #[test]
    fn characters_and_bytes_are_counted_apart() {
        assert!(NAME.check(&"ä".repeat(100)).is_ok() && NAME.check(&"ä".repeat(101)).is_err());
        let half = *pipeline::ARGUMENT.length.end() / 2;
        assert!(pipeline::ARGUMENT.check(&"ä".repeat(half)).is_ok());
        assert!(pipeline::ARGUMENT.check(&"ä".repeat(half + 1)).is_err());
    }

    #[test]
    fn patterns_are_those_of_the_contract() {
        let pattern = |rule: &TextRule| rule.pattern().unwrap();
        assert_eq!(pattern(&Identifier::RULE), "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$");
        assert_eq!(pattern(&CommitId::RULE), "^[!-,.-~][!-~]{0,127}$");
        assert_eq!(pattern(&LabelValue::RULE), "^[!-~]{1,63}$");
        assert_eq!(pattern(&VariableName::RULE), "^(?!LOCKKEEPER_)[A-Za-z_][A-Za-z0-9_]{0,62}$");
        assert_eq!(pattern(&Context::RULE), r"^[^\u0000-\u0008\u000b-\u001f\u007f-\u009f]*$");
        assert_eq!((Context::RULE.min_length(), Context::RULE.max_length()), (None, Some(1024)));
        assert_eq!(pattern(&NAME), r"^[^\u0000-\u001f\u007f-\u009f]+$");
        assert_eq!((NAME.min_length(), NAME.max_length()), (Some(1), Some(100)));
        assert_eq!(pattern(&pipeline::HEADER_VALUE), r"^[\t -~]{0,4096}$");
        let reserved = "[Hh][Oo][Ss][Tt]|[Cc][Oo][Nn][Tt][Ee][Nn][Tt]-[Ll][Ee][Nn][Gg][Tt][Hh]\
                        |[Tt][Rr][Aa][Nn][Ss][Ff][Ee][Rr]-[Ee][Nn][Cc][Oo][Dd][Ii][Nn][Gg]\
                        |[Cc][Oo][Nn][Nn][Ee][Cc][Tt][Ii][Oo][Nn]";
        assert_eq!(pattern(&pipeline::HEADER_NAME), format!("^(?!({reserved})$)[A-Za-z0-9!#$%&'*+.^_`|~-]{{1,100}}$"));
        assert_eq!(pipeline::HTTP_BODY.pattern(), None);
    }

    #[test]
    fn an_identifier_is_63_characters_at_most_and_begins_with_a_letter_or_digit() {
        for good in ["a", "7", "review-1", "A.b_c-d", &"x".repeat(63)] {
            assert!(Identifier::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", ".a", "_a", "a/b", "a b", "ä", "a\0", &"x".repeat(64)] {
            assert!(Identifier::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_commit_cannot_pass_for_an_option() {
        for good in ["c0ffee1", "v1.2.3", "refs/heads/main", &"f".repeat(128)] {
            assert!(CommitId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "-x", "--upload-pack=x", "a b", "a\n", "é", &"f".repeat(129)] {
            assert!(CommitId::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_context_counts_characters_and_allows_only_tab_and_newline_of_the_controls() {
        assert!(Context::parse(&"ä".repeat(1024)).is_ok());
        assert!(Context::parse("PR 412\n\tsecond line").is_ok());
        assert!(Context::parse(&"ä".repeat(1025)).is_err());
        for bad in ["\u{0}", "\r", "\u{1b}[31m", "\u{85}"] {
            assert!(Context::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn variables_named_like_ours_are_refused() {
        assert!(VariableName::parse("DATABASE_URL").is_ok());
        for bad in ["", "1A", "A-B", "LOCKKEEPER_SESSION"] {
            assert!(VariableName::parse(bad).is_err(), "{bad}");
        }
    }
}
