//! The form of an entry of the catalogue.

use crate::analysis::Category;

/// Signatures below this weight are words that also occur in file names, so file names are ignored for them.
pub const VAGUE_BELOW: u8 = 65;

pub struct Signature {
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

macro_rules! signatures {
    ($(
        $category:ident $weight:literal
            hints $($hint:literal),+
            pattern $pattern:literal
            cause $cause:literal
            fix $fix:literal
            like $($like:literal),+;
    )*) => {
        pub(super) const TABLE: &[super::signature::Signature] = &[$(super::signature::Signature {
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
pub(super) use signatures;
