//! Texts that came from outside: each is a type that exists only within its bounds, so nothing inward checks again.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Why a text is not one of ours, as the end of a sentence that begins with the field's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

macro_rules! bounded_text {
    ($(#[$doc:meta])* $name:ident, $check:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn parse(text: &str) -> Result<Self, Malformed> {
                $check(text).map(|()| Self(Arc::from(text)))
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
    /// An organization, a pipeline or an environment, as it stands in a path.
    Identifier, check_identifier
}
bounded_text! {
    /// A commit as the caller names it: a hash, a tag, whatever the pipeline understands.
    CommitId, check_commit_id
}
bounded_text! {
    /// Why somebody wants the lock, for those who find it taken.
    Context, check_context
}
bounded_text! {
    /// What an environment is for.
    Description, check_context
}
bounded_text! {
    /// The value of a label; its key is an [`Identifier`].
    LabelValue, check_label_value
}
bounded_text! {
    /// A name that a process can have in its environment.
    VariableName, check_variable_name
}
bounded_text! {
    VariableValue, check_variable_value
}

fn check_identifier(text: &str) -> Result<(), Malformed> {
    let mut bytes = text.bytes();
    let sane = text.len() <= 63
        && bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    sane.then_some(()).ok_or(Malformed("is 1 to 63 letters, digits, '.', '_' or '-', beginning with a letter or digit"))
}

fn check_commit_id(text: &str) -> Result<(), Malformed> {
    let sane =
        (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.starts_with('-');
    sane.then_some(()).ok_or(Malformed("is 1 to 128 visible ASCII characters without spaces, not beginning with '-'"))
}

fn check_context(text: &str) -> Result<(), Malformed> {
    let sane = text.chars().count() <= 1024 && !text.chars().any(|c| c.is_control() && c != '\t' && c != '\n');
    sane.then_some(()).ok_or(Malformed("is at most 1024 characters, with no control characters but tab and newline"))
}

fn check_label_value(text: &str) -> Result<(), Malformed> {
    let sane = (1..=63).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    sane.then_some(()).ok_or(Malformed("is 1 to 63 visible ASCII characters without spaces"))
}

fn check_variable_name(text: &str) -> Result<(), Malformed> {
    let mut bytes = text.bytes();
    let sane = text.len() <= 63
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !text.starts_with("LOCKKEEPER_");
    sane.then_some(()).ok_or(Malformed(
        "is 1 to 63 letters, digits or '_', not beginning with a digit or with LOCKKEEPER_, which is ours",
    ))
}

fn check_variable_value(text: &str) -> Result<(), Malformed> {
    let sane = text.chars().count() <= 4096 && !text.contains('\0');
    sane.then_some(()).ok_or(Malformed("is at most 4096 characters, without NUL"))
}

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
