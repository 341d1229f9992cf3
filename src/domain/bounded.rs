//! Texts from outside: each is a type that exists only within its bounds, so nothing further in checks again.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use super::text_rule::{CharClass, Malformed, Reserved, TextRule};

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

        /// Maps by this text can be asked with a plain one.
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
    /// A commit as the caller names it: a hash, a tag, whatever the pipeline understands.
    CommitId, REVISION
}
bounded_text! {
    /// Why somebody wants the lock, for others who find it taken.
    Context, PROSE
}
bounded_text! {
    /// What an environment is for.
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

/// A commit, branch or tag. It must not pass for an option of a program.
pub const REVISION: TextRule = TextRule::of(
    1..=128,
    CharClass::VISIBLE,
    "must be 1 to 128 visible ASCII characters without spaces, not starting with '-'",
)
.starting_with(CharClass::new("!-,.-~"));

/// The name of something for people to read: an organization, a pipeline, a token.
pub const NAME: TextRule =
    TextRule::of(1..=100, CharClass::NO_CONTROL, "must be 1 to 100 characters, without control characters");

const PROSE: TextRule = TextRule::of(
    0..=1024,
    CharClass::new(r"^\u0000-\u0008\u000b-\u001f\u007f-\u009f"),
    "must be at most 1024 characters, without control characters other than tab and newline",
);

#[cfg(test)]
mod tests {
    use super::*;

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
