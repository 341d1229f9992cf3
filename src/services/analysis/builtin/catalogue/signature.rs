//! The form of an entry of the catalogue.

use super::super::tools::Tools;
use crate::analysis::Category;

/// Signatures below this weight are words that also occur in file names, so file names are ignored for them.
const VAGUE_BELOW: u8 = 65;

/// Signatures from this weight on name a cause; below, a failure that may have another one.
const CAUSE_FROM: u8 = 78;

const BEYOND_DOUBT_FROM: u8 = 94;

/// Hints of signatures about what could not be fetched.
const FETCHING: &[&str] = &[
    "no matching distribution found",
    "unable to locate package",
    "could not find artifact",
    "no matching package",
    "could not resolve all",
    "failed to download",
    "no required module provides package",
    "failed to resolve source metadata",
    "failed to query available provider",
    "could not find gem",
    "non-resolvable parent pom",
    "does not have a release file",
];

pub struct Signature {
    pub category: Category,
    pub weight: u8,
    /// The tools whose lines it counts in; all if there are none.
    pub of: Tools,
    /// Every line that matches the pattern contains one of them.
    pub hints: &'static [&'static str],
    pub pattern: &'static str,
    pub cause: &'static str,
    pub fix: &'static str,
    #[cfg(test)]
    pub like: &'static [&'static str],
}

impl Signature {
    pub fn names_a_cause(&self) -> bool {
        self.weight >= CAUSE_FROM
    }

    /// Whether no failure shortly before it is likelier to be the cause.
    pub fn is_beyond_doubt(&self) -> bool {
        self.weight >= BEYOND_DOUBT_FROM
    }

    /// Whether it says that something cannot be fetched, and not that it does not fit.
    pub fn is_about_fetching(&self) -> bool {
        self.hints.iter().any(|hint| FETCHING.contains(hint))
    }

    /// Whether it is a generic phrase: a feature, and no verdict.
    pub fn is_vague(&self) -> bool {
        self.weight < VAGUE_BELOW
    }
}

macro_rules! signatures {
    ($(
        $category:ident $weight:literal
            $(of $($tool:ident),+)?
            hints $($hint:literal),+
            pattern $pattern:literal
            cause $cause:literal
            fix $fix:literal
            like $($like:literal),+;
    )*) => {
        pub(super) const TABLE: &[super::signature::Signature] = &[$(super::signature::Signature {
            category: crate::analysis::Category::$category,
            weight: $weight,
            of: crate::analysis::builtin::tools::Tools::of(&[
                $($(crate::analysis::builtin::tools::Tool::$tool),+)?
            ]),
            hints: &[$($hint),+],
            pattern: $pattern,
            cause: $cause,
            fix: $fix,
            #[cfg(test)]
            like: &[$($like),+],
        }),*];
    };
}
pub(super) use signatures;
