//! Signatures of failures: the meaning of a line alone, and the sentences for a match, which contain names from the
//! line: the cause and the fix. `catalogue/signatures/README.md` explains how to read and write a signature. The fix
//! never recommends editing files outside the commit (`catalogue/paths.toml`).

use std::sync::LazyLock;

use regex::bytes::Captures;
use serde::Deserialize;

use super::tools::Tools;
use crate::catalogue::{PATHS, Pattern, SIGNATURES};
use crate::{Category, clipped};

/// Signatures below this weight are words that also occur in file names, so file names are ignored for them.
const VAGUE_BELOW: u8 = 65;
/// Signatures from this weight on name a cause; below it, a failure that may have another cause.
const CAUSE_FROM: u8 = 78;
const BEYOND_DOUBT_FROM: u8 = 94;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Signature {
    pub category: Category,
    pub weight: u8,
    /// The tools to whose lines the signature applies; all if empty.
    #[serde(default)]
    pub of: Tools,
    /// Whether the signature reports that something cannot be fetched, rather than that it does not fit.
    #[serde(default)]
    pub fetching: bool,
    /// Every line that matches the pattern contains one of these texts.
    pub hints: Vec<String>,
    pub pattern: Pattern,
    pub cause: String,
    pub fix: String,
    /// Lines that the signature matches.
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

    /// Whether the signature is certain enough that no failure shortly before it is preferred as the cause.
    pub fn is_beyond_doubt(&self) -> bool {
        self.weight >= BEYOND_DOUBT_FROM
    }

    /// Whether the signature is a generic phrase, which is only a hint.
    pub fn is_vague(&self) -> bool {
        self.weight < VAGUE_BELOW
    }
}

/// The maximum length of a captured text in a sentence.
const CAPTURE_CHARACTERS_MAX: usize = 120;

/// The cause and the fix.
pub(super) fn sentences(signature: &Signature, text: &str) -> (String, String) {
    let captures = signature.pattern.regex().captures(text.as_bytes());
    let fix = outside(signature, captures.as_ref()).and_then(|path| elsewhere(signature.category, &path));
    let fix = fix.unwrap_or_else(|| filled(&signature.fix, captures.as_ref()));
    (filled(&signature.cause, captures.as_ref()), fix)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Paths {
    system: Vec<String>,
    packages: Vec<String>,
    work: Vec<String>,
}

static LOCATIONS: LazyLock<Paths> = LazyLock::new(|| PATHS.read());

/// The advice for a path outside the commit.
fn elsewhere(category: Category, path: &str) -> Option<String> {
    use Category::{Compile, Crashed, Lint, MissingFile, PermissionDenied, Syntax, TestFailure};
    if matches!(category, PermissionDenied | MissingFile) {
        return Some(format!(
            "`{path}` lies outside of the step's working directory: use the working directory instead, or have the image or machine provide it"
        ));
    }
    matches!(category, Compile | Syntax | Lint | TestFailure | Crashed).then(|| {
        format!(
            "`{path}` is not part of the commit: change the file it is made from, or pin or update the package or image it belongs to; do not edit it where it lies"
        )
    })
}

/// The first path outside the commit that the fix names.
fn outside(signature: &Signature, captures: Option<&Captures<'_>>) -> Option<String> {
    let captures = captures?;
    let names = signature.fix.split('{').skip(1).filter_map(|rest| rest.split(['}', '|']).next());
    let mut values = names.flat_map(|names| names.split('/')).filter_map(|name| captures.name(name));
    values.find_map(|value| {
        let path = std::str::from_utf8(value.as_bytes()).ok()?;
        let shown = path.chars().filter(|c| !c.is_control() && *c != '`').take(CAPTURE_CHARACTERS_MAX);
        is_outside(path).then(|| shown.collect())
    })
}

fn is_outside(path: &str) -> bool {
    let Paths { system, packages, work } = &*LOCATIONS;
    let has = |part: &String| path.contains(part.as_str());
    let is_of_the_system = system.iter().any(|prefix| path.starts_with(prefix.as_str()));
    packages.iter().any(has) || (is_of_the_system && !work.iter().any(has))
}

/// Inserts the captures into a sentence.
fn filled(template: &str, captures: Option<&Captures<'_>>) -> String {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        let (names, otherwise) = name.split_once('|').unwrap_or((name, "…"));
        let group = names.split('/').find_map(|name| captures?.name(name));
        let group = group.map(|group| presentable(group.as_bytes())).filter(|group| !group.is_empty());
        text.push_str(before);
        text.push_str(group.as_deref().unwrap_or(otherwise));
        rest = after;
    }
    text.push_str(rest);
    text
}

/// Text from a log for use in our sentences: short, on one line, and without characters that would end its quotes.
fn presentable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text: String = text.chars().map(|c| if c.is_control() || c == '`' { ' ' } else { c }).collect();
    let text = text.trim();
    let quotes = [('\'', '\''), ('"', '"'), ('‘', '’'), ('“', '”')];
    let unquoted = quotes.iter().find_map(|(open, close)| text.strip_prefix(*open)?.strip_suffix(*close));
    clipped(unquoted.unwrap_or(text), CAPTURE_CHARACTERS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All signatures, each with its file and line.
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

    #[test]
    fn paths_of_the_system_and_of_packages_lie_outside() {
        for path in ["/etc/nginx/nginx.conf", "/usr/lib/python3/dist-packages/x.py", "node_modules/a/b.ts", "~/.npmrc"]
        {
            assert!(is_outside(path), "{path}");
        }
        for path in
            ["src/a.rs", "/srv/work/src/a.rs", "/builds/acme/web/a.c", "/var/lib/jenkins/workspace/web/a.c", "a"]
        {
            assert!(!is_outside(path), "{path}");
        }
    }
}
