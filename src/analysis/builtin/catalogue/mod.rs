//! The catalogue of failure signatures, as data: one table per theme. It says what a line means by itself; `rank.rs`
//! compares lines.
//!
//! How to read an entry: category and weight; `hints`, of which a line must contain one (any case), so that most lines cost
//! only one search; a `pattern` (any case, ASCII classes); the `cause`; the `fix`; and example lines (`like`), each of which
//! a test runs through the engine. In the two sentences `{name}` is the capture of that name, and `{name/other|text}` the
//! first existing one of several, with a default text.
//!
//! Weights: from 90, it names the cause beyond doubt; from 80, it names a cause; from 65, it names a failure, often the
//! consequence of something else; below, it is a hint.

mod access;
mod build;
mod code;
mod containers;
mod data;
mod dependencies;
mod files;
mod history;
mod network;
mod resources;
mod shell;
mod testing;
mod vague;
mod variables;

use crate::analysis::Category;

/// Signatures below this weight are words that also occur in file names, so file names are ignored for them.
pub(super) const VAGUE_BELOW: u8 = 65;

pub(super) struct Signature {
    pub category: Category,
    pub weight: u8,
    /// Every line that matches the pattern contains one of them.
    pub hints: &'static [&'static str],
    pub pattern: &'static str,
    pub cause: &'static str,
    pub fix: &'static str,
    #[cfg(test)]
    pub like: &'static [&'static str],
}

/// In the order of the tables; of two matches with equal weight the earlier one wins.
pub(super) fn all() -> impl Iterator<Item = &'static Signature> {
    TABLES.iter().copied().flatten()
}

const TABLES: &[&[Signature]] = &[
    shell::TABLE,
    files::TABLE,
    variables::TABLE,
    access::TABLE,
    network::TABLE,
    resources::TABLE,
    containers::TABLE,
    dependencies::TABLE,
    code::TABLE,
    build::TABLE,
    testing::TABLE,
    data::TABLE,
    history::TABLE,
    vague::TABLE,
];

macro_rules! signatures {
    ($(
        $category:ident $weight:literal
            hints $($hint:literal),+
            pattern $pattern:literal
            cause $cause:literal
            fix $fix:literal
            like $($like:literal),+;
    )*) => {
        pub(super) const TABLE: &[super::Signature] = &[$(super::Signature {
            category: crate::analysis::Category::$category,
            weight: $weight,
            hints: &[$($hint),+],
            pattern: $pattern,
            cause: $cause,
            fix: $fix,
            #[cfg(test)]
            like: &[$($like),+],
        }),*];
    };
}
use signatures;
