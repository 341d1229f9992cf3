//! The general meaning of a category (`catalogue/categories.toml`), which failures follow from which
//! (`catalogue/consequences.toml`), and the meaning of a step's end: its exit code or the signal that killed it
//! (`catalogue/exits.toml`), its time limit, a decision of a person.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::case_view::CaseView;
use crate::Category;
use crate::catalogue::{CATEGORIES, CONSEQUENCES, EXITS};
use domain::StageStatus;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Meaning {
    /// The cause, for a failure that no signature describes.
    pub cause: String,
    /// The advice for that cause.
    pub fix: String,
    /// Whether such errors may disappear after a while.
    #[serde(default)]
    pub passing: bool,
    /// Whether the failure keeps tests from running, and is not output of code under test.
    #[serde(default)]
    pub prevents_tests: bool,
    /// Whether a network service could not be reached.
    #[serde(default)]
    pub network: bool,
    /// Whether the failure is only visible to programs that wait for something else.
    #[serde(default)]
    pub symptom: bool,
    /// Whether the failure is reported before its reason.
    #[serde(default)]
    pub report: bool,
}

static MEANINGS: LazyLock<HashMap<Category, Meaning>> = LazyLock::new(|| CATEGORIES.read());

/// Panics for a category that is not in the file, which a test excludes.
pub(super) fn meaning(category: Category) -> &'static Meaning {
    &MEANINGS[&category]
}

/// The maximum distance between a cause and its consequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Soon,
    Later,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Consequences {
    soon: Vec<Consequence>,
    later: Vec<Consequence>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Consequence {
    causes: Vec<Category>,
    effects: Vec<Category>,
}

static REACHES: LazyLock<HashMap<(Category, Category), Reach>> = LazyLock::new(|| {
    let Consequences { soon, later } = CONSEQUENCES.read();
    let mut reaches = HashMap::new();
    for (reach, rows) in [(Reach::Soon, soon), (Reach::Later, later)] {
        for Consequence { causes, effects } in rows {
            let pairs = causes.iter().flat_map(|cause| effects.iter().map(|effect| (*cause, *effect)));
            reaches.extend(pairs.map(|pair| (pair, reach)));
        }
    }
    reaches
});

/// None if the second failure does not follow from the first.
pub(super) fn reach(cause: Category, effect: Category) -> Option<Reach> {
    REACHES.get(&(cause, effect)).copied()
}

/// An end other than a plain failure, whose category the log cannot refine.
pub(super) enum Verdict {
    Interrupted,
    Rejected,
    Cancelled,
    TimedOut { seconds: Option<u32> },
}

pub(super) fn verdict(view: &CaseView<'_>) -> Option<Verdict> {
    let error = view.error();
    if error.starts_with("interrupted: ") {
        return Some(Verdict::Interrupted);
    }
    let name = view.stage.map(|stage| stage.name.as_str()).unwrap_or_default();
    if error.starts_with(&format!("stage `{name}` was rejected by ")) {
        return Some(Verdict::Rejected);
    }
    if error.starts_with(&format!("stage `{name}`: the stage took longer than its ")) {
        return Some(Verdict::TimedOut { seconds: view.stage.and_then(|stage| stage.timeout_seconds) });
    }
    let cancelled = view.stage.is_some_and(|stage| stage.status == StageStatus::Cancelled);
    cancelled.then_some(Verdict::Cancelled)
}

/// The meaning of an exit code or a signal that has one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExitMeaning {
    #[serde(default)]
    codes: Vec<i32>,
    #[serde(default)]
    signals: Vec<i32>,
    #[serde(default)]
    of_curl: bool,
    #[serde(default)]
    with_memory_limit: bool,
    pub weight: u8,
    /// The first one applies if no line is more specific.
    pub categories: Vec<Category>,
    pub cause: String,
    pub fix: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    exit: Vec<ExitMeaning>,
}

static EXIT_MEANINGS: LazyLock<Vec<ExitMeaning>> = LazyLock::new(|| EXITS.read::<Table>().exit);

pub(super) fn exit_meaning(view: &CaseView<'_>) -> Option<&'static ExitMeaning> {
    let code = view.exit_code();
    let by_code = code.filter(|code| SIGNALLED.contains(code)).map(|code| code - 128);
    let signal = killed_by(view.error()).or(by_code);
    EXIT_MEANINGS.iter().find(|meaning| match (signal, code) {
        (Some(signal), _) => {
            meaning.signals.contains(&signal) && (!meaning.with_memory_limit || has_memory_limit(view.action()))
        }
        (None, Some(code)) => meaning.codes.contains(&code) && (!meaning.of_curl || calls_curl(view)),
        (None, None) => false,
    })
}

/// The exit codes with which shells report a signal.
const SIGNALLED: std::ops::RangeInclusive<i32> = 129..=159;
/// A call of curl, the last command of many scripts, is searched for in the last lines, up to this many.
const CURL_WITHIN: usize = 12;

fn calls_curl(view: &CaseView<'_>) -> bool {
    let mut last = view.focus().rev().take(CURL_WITHIN).map(|at| view.lines[at].text.as_str());
    view.action().contains("curl") || last.any(|text| text.contains("curl"))
}

fn has_memory_limit(action: &str) -> bool {
    static LIMIT: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = Regex::new(r"(?-u)(?:^|\s)(?:-m|--memory(?:-limit)?|-Xmx|MemoryMax=)[= ]?\d");
        pattern.expect("the pattern is a constant, which a test compiles")
    });
    LIMIT.is_match(action)
}

/// As worded by the runner.
fn killed_by(error: &str) -> Option<i32> {
    let (_, number) = error.rsplit_once("was killed by signal ")?;
    number.trim_end_matches('…').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_has_a_meaning_and_none_follows_from_itself() {
        for category in Category::ALL {
            assert!(MEANINGS.contains_key(&category), "categories.toml: {category} is missing");
            assert!(matches!(category, Category::Killed) || reach(category, category).is_none(), "{category}");
        }
        assert_eq!(reach(Category::DependencyResolution, Category::MissingCommand), Some(Reach::Later));
        assert_eq!(reach(Category::DependencyResolution, Category::Lint), Some(Reach::Soon));
        assert_eq!(reach(Category::Lint, Category::DependencyResolution), None);
    }

    #[test]
    fn every_exit_has_categories_and_either_codes_or_signals() {
        for meaning in EXIT_MEANINGS.iter() {
            assert!(meaning.codes.is_empty() != meaning.signals.is_empty(), "exits.toml: {}", meaning.cause);
            assert!(!meaning.categories.is_empty() && meaning.weight <= 100, "exits.toml: {}", meaning.cause);
        }
        assert!(has_memory_limit("docker run -m 512m x") && !has_memory_limit("docker run -mx"));
    }
}
