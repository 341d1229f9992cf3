//! The catalogue of failure signatures, as data: one table a theme. What a line is worth beside others is decided
//! elsewhere; here stands what it says by itself.
//!
//! How to read an entry: category and weight; `hints`, of which a line must have one (any case), so that most lines cost
//! no more than one search; a `pattern` (any case, ASCII classes); the `cause` it means; the `fix` for it; and lines that
//! it is `like`, each of which a test gives to the engine. In the two sentences `{name}` is what the pattern caught under
//! that name, and `{name/other|text}` the first of several that it caught, with a text for when it caught none.
//!
//! Weights: from 90, it names the cause and leaves no doubt; from 80, it names a cause; from 65, it says what failed,
//! often as the consequence of something else; below, it is a hint.

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

use super::super::Category;

/// Below this a signature is a word that stands in names of files as well: those are left out for it.
pub(super) const VAGUE_BELOW: u8 = 65;

pub(super) struct Signature {
    pub category: Category,
    pub weight: u8,
    /// One of them is in every line that the pattern matches.
    pub hints: &'static [&'static str],
    pub pattern: &'static str,
    pub cause: &'static str,
    pub fix: &'static str,
    #[cfg(test)]
    pub like: &'static [&'static str],
}

/// In the order of the tables; of two that are worth the same in one line the earlier wins.
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
