//! The sentences of a signature about its match: the cause and the fix, with what the line names. The fix never asks to edit
//! what lies outside of the commit (`catalogue/paths.toml`).

use std::sync::LazyLock;

use regex::bytes::Captures;
use serde::Deserialize;

use super::signatures::Signature;
use crate::catalogue::PATHS;
use crate::{Category, clipped};

/// The part of a captured text that is shown.
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

/// The advice for a path outside of the commit.
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

/// The first path outside of the commit that the fix names.
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

/// A sentence with the captures in it.
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

/// Text from a log within one of our sentences: short, on one line, and without characters that would end its quotes.
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
