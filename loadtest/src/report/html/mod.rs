//! The HTML report: one self-contained file that loads nothing. Tables, ratios and checks are plain HTML; the page's
//! script draws the plots from embedded data, to fit the window.

use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use crate::report::html::tables::{in_order, run_name, section};
use crate::report::model::{Check, Run, Verdict};
use crate::report::number::{NOTHING, count, counted};

mod data;
mod tables;

const STYLE: &str = include_str!("page.css");
/// The scripts in dependency order: each uses the ones before it.
const SCRIPTS: [&str; 4] =
    [include_str!("scale.js"), include_str!("draw.js"), include_str!("hover.js"), include_str!("plots.js")];
/// The policy with which the browser ensures that the page loads nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// One run, or several side by side; all changes are relative to the first.
pub fn html(runs: &[Run]) -> String {
    let title = title(runs);
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                // Without this, browsers request an icon from the server.
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                main { (header(runs, &title)) (sections(runs)) }
                div #tip hidden {}
                svg #seed width="0" height="0" aria-hidden="true" {}
                script #data type="application/json" { (PreEscaped(data::embedded(runs))) }
                script { (PreEscaped("\"use strict\";\n(() => {\n")) @for script in SCRIPTS { (PreEscaped(script)) } (PreEscaped("})();\n")) }
            }
        }
    };
    page.into_string()
}

fn sections(runs: &[Run]) -> Markup {
    if runs.is_empty() {
        return markup! { p.none { "There is no run to show." } };
    }
    markup! {
        div.pair { (checks(runs)) (tables::ratios(runs)) }
        (broken(runs))
        // Side by side only if each table has few columns.
        div.pair[runs.len() == 1] { (tables::figures(runs)) (tables::latencies(runs)) }
        section {
            h2 { "Latency by percentile" }
            @if data::has_distributions(runs) {
                div #percentiles.plots {}
                (without_script())
            } @else {
                p.none { "No latencies were recorded in enough detail to draw them." }
            }
        }
        section {
            h2 { "Over time" }
            @if data::has_timeline(runs) {
                (thin_note(runs))
                div #timeline.plots {}
                (without_script())
            } @else {
                p.none { "Nothing was recorded over time." }
            }
        }
        (errors(runs))
        (tables::statuses(runs))
    }
}

fn without_script() -> Markup {
    markup! { noscript { p.none { "The plots need JavaScript; everything else on this page does not." } } }
}

fn thin_note(runs: &[Run]) -> Markup {
    let merged: Vec<usize> = runs.iter().map(data::most_merged).collect();
    let most = merged.into_iter().max().unwrap_or(1);
    markup! {
        @if most > 1 {
            p.note {
                "Up to " (most) " slices in a row are drawn as one point: the median of their p50, the highest of their "
                "p99, max, requests under way and memory."
            }
        }
    }
}

fn title(runs: &[Run]) -> String {
    let mut scenarios: Vec<&str> = runs.iter().map(|run| run.scenario.as_str()).collect();
    scenarios.dedup();
    match runs.len() {
        0 => "load test".to_owned(),
        1 => format!("load test: {}", scenarios[0]),
        several => format!("load test: {}, {several} runs", scenarios.join(", ")),
    }
}

fn header(runs: &[Run], title: &str) -> Markup {
    let mut descriptions: Vec<&str> = runs.iter().map(|run| run.description.as_str()).collect();
    descriptions.dedup();
    markup! {
        header {
            h1 { (title) }
            @for description in descriptions { p.description { (description) } }
            @for (index, run) in runs.iter().enumerate() {
                p.verdict.(verdict_class(run)) {
                    @if runs.len() > 1 { (run_name(index)) " " }
                    (run.verdict_sentence())
                }
            }
            (tables::settings(runs))
        }
    }
}

fn verdict_class(run: &Run) -> &'static str {
    match run.verdict() {
        Verdict::Clean => "good",
        Verdict::Errors => "doubtful",
        Verdict::Violations => "bad",
    }
}

fn errors(runs: &[Run]) -> Markup {
    let failed: Vec<(usize, &Run)> = runs.iter().enumerate().filter(|(_, run)| !run.errors.is_empty()).collect();
    let tables = markup! {
        @for (index, run) in &failed {
            @if runs.len() > 1 { h3 { (run_name(*index)) } }
            table.narrow {
                @for (what, times) in &run.errors { tr { td.number { (count(*times)) } td { (what) } } }
                tr.total { td.number { (count(run.error_count())) } td { "in " (counted(run.errors.len() as u64, "kind")) } }
            }
        }
    };
    section("Errors", !failed.is_empty(), &tables)
}

#[cfg(test)]
mod tests;

/// Enough for a reader; the JSON has the rest.
const MOST_VIOLATIONS: usize = 20;
const MOST_REQUESTS: usize = 50;

fn checks(runs: &[Run]) -> Markup {
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
                        tr { th { (name) } @for run in runs { (cell(find_check(run, name))) } }
                    }
                } }
            }
        }
    }
}

/// Violations at full width, so that requests can be compared line by line.
fn broken(runs: &[Run]) -> Markup {
    markup! {
        @for (index, run) in runs.iter().enumerate() {
            @for check in run.checks.iter().filter(|check| check.found() > 0) {
                (violations(check, (runs.len() > 1).then_some(index)))
            }
        }
    }
}

fn find_check<'a>(run: &'a Run, name: &str) -> Option<&'a Check> {
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
