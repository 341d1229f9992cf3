//! Signatures of failures: what a line means by itself. How to read and write one is said in `catalogue/signatures/README.md`.

use std::sync::LazyLock;

use serde::Deserialize;

use super::tools::Tools;
use crate::Category;
use crate::catalogue::{Pattern, SIGNATURES};

/// Signatures below this weight are words that also occur in file names, so file names are ignored for them.
const VAGUE_BELOW: u8 = 65;
/// Signatures from this weight on name a cause; below, a failure that may have another one.
const CAUSE_FROM: u8 = 78;
const BEYOND_DOUBT_FROM: u8 = 94;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Signature {
    pub category: Category,
    pub weight: u8,
    /// The tools whose lines it counts in; all if there are none.
    #[serde(default)]
    pub of: Tools,
    /// Whether it says that something cannot be fetched, and not that it does not fit.
    #[serde(default)]
    pub fetching: bool,
    /// Every line that matches the pattern contains one of them.
    pub hints: Vec<String>,
    pub pattern: Pattern,
    pub cause: String,
    pub fix: String,
    /// Lines that match.
    #[cfg(test)]
    pub like: Vec<String>,
    #[cfg(not(test))]
    #[serde(rename = "like")]
    _like: serde::de::IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table<S> {
    signature: Vec<S>,
}

static ALL: LazyLock<Vec<Signature>> = LazyLock::new(|| {
    let mut all: Vec<Signature> =
        SIGNATURES.iter().flat_map(|file| file.read::<Table<Signature>>().signature).collect();
    all.sort_by_key(|signature| std::cmp::Reverse(signature.weight));
    all
});

/// By descending weight, then in the order of the catalogue.
pub(super) fn all() -> &'static [Signature] {
    &ALL
}

impl Signature {
    pub fn names_a_cause(&self) -> bool {
        self.weight >= CAUSE_FROM
    }

    /// Whether no failure shortly before it is likelier to be the cause.
    pub fn is_beyond_doubt(&self) -> bool {
        self.weight >= BEYOND_DOUBT_FROM
    }

    /// Whether it is a generic phrase: a feature, and no verdict.
    pub fn is_vague(&self) -> bool {
        self.weight < VAGUE_BELOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the file and the line of each.
    fn placed() -> impl Iterator<Item = (String, Signature)> {
        SIGNATURES.iter().flat_map(|file| {
            let signatures = file.read::<Table<toml::Spanned<Signature>>>().signature;
            signatures.into_iter().map(|signature| (file.place(signature.span().start), signature.into_inner()))
        })
    }

    #[test]
    fn signatures_are_in_the_order_of_the_catalogue_by_descending_weight() {
        let mut placed: Vec<Signature> = placed().map(|(_, signature)| signature).collect();
        assert!(placed.len() > 400);
        placed.sort_by_key(|signature| std::cmp::Reverse(signature.weight));
        assert!(placed.iter().map(|one| &one.cause).eq(all().iter().map(|one| &one.cause)));
    }

    #[test]
    fn every_signature_matches_an_example_and_needs_no_more_than_its_hints() {
        let mut faults = Vec::new();
        for (place, signature) in placed() {
            let is_hint = |hint: &String| hint.to_ascii_lowercase() == *hint && hint.len() >= 2;
            if signature.hints.is_empty() || !signature.hints.iter().all(is_hint) || signature.weight > 100 {
                faults.push(format!("{place}: a hint or the weight"));
            }
            for line in &signature.like {
                let lower = line.to_ascii_lowercase();
                let is_hinted = signature.hints.iter().any(|hint| lower.contains(hint));
                if !is_hinted {
                    faults.push(format!("{place}: no hint is in: {line}"));
                }
            }
            if !signature.like.iter().any(|line| signature.pattern.is_match(line)) {
                faults.push(format!("{place}: the pattern matches none of its examples"));
            }
        }
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn every_name_in_a_sentence_is_a_capture_of_its_pattern() {
        for (place, signature) in placed() {
            for sentence in [&signature.cause, &signature.fix] {
                let names = sentence.split('{').skip(1).filter_map(|rest| rest.split(['}', '|']).next());
                for name in names.flat_map(|names| names.split('/')) {
                    let mut known = signature.pattern.regex().capture_names().flatten();
                    assert!(known.any(|known| known == name), "{place}: there is no capture {name}: {sentence}");
                }
            }
        }
    }
}
