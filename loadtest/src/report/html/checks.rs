//! Owns the checks on the page: a row each, and whatever broke a rule with the requests that show it.

use maud::{Markup, html as markup};

use super::tables::{in_order, run_name};
use crate::report::model::{Check, Run};
use crate::report::number::{NOTHING, count, counted};

/// As many violations as anybody reads; the JSON has the rest.
const MOST_VIOLATIONS: usize = 20;
const MOST_REQUESTS: usize = 50;

pub fn section(runs: &[Run]) -> Markup {
    let names = in_order(runs.iter().flat_map(|run| run.checks.iter().map(|check| check.name.as_str())));
    let several = runs.len() > 1;
    markup! {
        section {
            h2 { "Checks" }
            @if names.is_empty() { p.none { "Nothing was checked." } } @else {
                div.scroll { table.checks {
                    thead { tr {
                        th {} @for index in 0..runs.len() { th { @if several { (run_name(index)) } @else { "examined" } } }
                    } }
                    @for name in &names {
                        tr { th { (name) } @for run in runs { (cell(find(run, name))) } }
                    }
                } }
            }
        }
    }
}

/// Whatever broke a rule, over the whole width: requests are compared line by line.
pub fn broken(runs: &[Run]) -> Markup {
    markup! {
        @for (index, run) in runs.iter().enumerate() {
            @for check in run.checks.iter().filter(|check| check.found() > 0) {
                (violations(check, (runs.len() > 1).then_some(index)))
            }
        }
    }
}

fn find<'a>(run: &'a Run, name: &str) -> Option<&'a Check> {
    run.checks.iter().find(|check| check.name == name)
}

fn cell(check: Option<&Check>) -> Markup {
    let Some(check) = check else {
        return markup! { td.check { (NOTHING) } };
    };
    match (check.found(), check.examined) {
        (0, 0) => markup! { td.check.nothing { "nothing to examine" } },
        (0, examined) => markup! { td.check.good { (count(examined)) " held" } },
        (found, examined) => {
            markup! { td.check.bad { (counted(found, "violation")) span { " of " (count(examined)) } } }
        }
    }
}

fn violations(check: &Check, run: Option<usize>) -> Markup {
    let shown = check.violations.len().min(MOST_VIOLATIONS);
    let more = check.found().saturating_sub(shown as u64);
    markup! {
        details.violations open {
            summary { @if let Some(index) = run { (run_name(index)) " " } "broken: " (check.name) }
            @for violation in &check.violations[..shown] {
                div.violation {
                    p { (violation.what) }
                    @if !violation.requests.is_empty() {
                        ol { @for request in violation.requests.iter().take(MOST_REQUESTS) { li { (request) } } }
                    }
                    @if violation.requests.len() > MOST_REQUESTS {
                        p.note { "and " (counted((violation.requests.len() - MOST_REQUESTS) as u64, "request")) " more" }
                    }
                }
            }
            @if more > 0 { p.note { "and " (count(more)) " more" } }
        }
    }
}
