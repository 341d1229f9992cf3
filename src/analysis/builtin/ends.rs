//! What the end of a step means by itself: its exit code or the signal that killed it (`catalogue/exits.toml`), its time limit,
//! a decision of a person.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use super::case_view::CaseView;
use crate::Category;
use crate::catalogue::EXITS;
use domain::StageStatus;

/// An end other than a plain failure: nothing in the log can say more about the category.
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
    /// The first one applies if no line says more.
    pub categories: Vec<Category>,
    pub cause: String,
    pub fix: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    exit: Vec<ExitMeaning>,
}

static MEANINGS: LazyLock<Vec<ExitMeaning>> = LazyLock::new(|| EXITS.read::<Table>().exit);

pub(super) fn exit_meaning(view: &CaseView<'_>) -> Option<&'static ExitMeaning> {
    let code = view.exit_code();
    let by_code = code.filter(|code| SIGNALLED.contains(code)).map(|code| code - 128);
    let signal = killed_by(view.error()).or(by_code);
    MEANINGS.iter().find(|meaning| match (signal, code) {
        (Some(signal), _) => {
            meaning.signals.contains(&signal) && (!meaning.with_memory_limit || has_memory_limit(view.action()))
        }
        (None, Some(code)) => meaning.codes.contains(&code) && (!meaning.of_curl || calls_curl(view)),
        (None, None) => false,
    })
}

/// The exit codes by which shells report a signal.
const SIGNALLED: std::ops::RangeInclusive<i32> = 129..=159;
/// curl, the last command of many scripts, is searched for in this many last lines.
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
    fn every_exit_has_categories_and_either_codes_or_signals() {
        for meaning in MEANINGS.iter() {
            assert!(meaning.codes.is_empty() != meaning.signals.is_empty(), "exits.toml: {}", meaning.cause);
            assert!(!meaning.categories.is_empty() && meaning.weight <= 100, "exits.toml: {}", meaning.cause);
        }
        assert!(has_memory_limit("docker run -m 512m x") && !has_memory_limit("docker run -mx"));
    }
}
