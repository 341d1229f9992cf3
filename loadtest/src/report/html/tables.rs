//! The page's tables and bars: settings, figures with their spread and their change between runs, latencies, ratios,
//! statuses.

use maud::{Markup, html as markup};

use crate::report::model::{Figure, Goal, Operation, Phase, Run, goal};
use crate::report::number::{NOTHING, change, count, latency, plain, seconds, with_unit, without_zeros};

/// A run's letter ("A", "B", …) in the run's colour, as in the plots.
pub fn run_name(index: usize) -> Markup {
    let letter = u32::try_from(index).ok().filter(|index| *index < 26).and_then(|index| char::from_u32(65 + index));
    let name = letter.map_or_else(|| (index + 1).to_string(), String::from);
    markup! { span.run { i.{ "s" (index % 8 + 1) } {} (name) } }
}

/// The settings: a list for one run, a table with a column per run for several.
pub fn settings(runs: &[Run]) -> Markup {
    let rows = setting_rows(runs);
    if runs.len() == 1 {
        return markup! { dl.settings { @for (name, values) in rows { div { dt { (name) } dd { (values[0]) } } } } };
    }
    markup! {
        @if !runs.is_empty() {
            div.scroll { table.settings {
                thead { tr { th {} @for index in 0..runs.len() { th { (run_name(index)) } } } }
                @for (name, values) in rows {
                    @let same = values.iter().all(|value| *value == values[0]);
                    tr.same[same] { th { (name) } @for value in values { td { (value) } } }
                }
            } }
        }
    }
}

fn setting_rows(runs: &[Run]) -> Vec<(&str, Vec<String>)> {
    let mut rows: Vec<(&str, Vec<String>)> = vec![
        ("started", runs.iter().map(|run| run.started_at.clone()).collect()),
        ("target", runs.iter().map(|run| run.target.clone()).collect()),
        ("took", runs.iter().map(|run| seconds(run.seconds)).collect()),
    ];
    let scenarios: Vec<String> = runs.iter().map(|run| run.scenario.clone()).collect();
    if scenarios.iter().any(|scenario| *scenario != scenarios[0]) {
        rows.insert(0, ("scenario", scenarios));
    }
    for name in in_order(runs.iter().flat_map(|run| run.settings.keys().map(String::as_str))) {
        let value = |run: &Run| run.settings.get(name).map_or(NOTHING, String::as_str).to_owned();
        rows.push((name, runs.iter().map(value).collect()));
    }
    rows
}

/// Each phase's figures: one row per name, one column per run.
pub fn figures(runs: &[Run]) -> Markup {
    let phases = by_phase(runs, |phase| phase.figures.iter().map(|figure| figure.name.as_str()).collect());
    let several = runs.len() > 1;
    let any_goal = runs.iter().flat_map(|run| &run.phases).flat_map(|it| &it.figures).any(|it| it.goal.is_some());
    let table = markup! {
        div.scroll { table.figures {
            thead { tr {
                th { @if several { "median, min – max over the rounds" } }
                @if several {
                    @for index in 0..runs.len() { th.number { (run_name(index)) } @if index > 0 { th.change { "against A" } } }
                } @else { th.number { "median" } th { "min – max" } th.number { "rounds" } }
                th { @if any_goal { "goal" } }
            } }
            @for (phase, names) in &phases {
                tbody {
                    tr.group { th colspan=(2 * runs.len() + 4) { (phase) } }
                    @for name in names { (figure_row(runs, phase, name)) }
                }
            }
        } }
        @if several { p.note { "A change in grey is within the spread of the rounds." } }
    };
    section("Figures", !phases.is_empty(), &table)
}

fn figure_row(runs: &[Run], phase: &str, name: &str) -> Markup {
    let found: Vec<Option<&Figure>> = runs.iter().map(|run| find_figure(run, phase, name)).collect();
    let wanted = found.iter().flatten().find_map(|figure| Some((figure.goal?, figure.unit.as_str())));
    markup! {
        tr {
            th { (name) }
            @if let [only] = found[..] {
                @if let Some(figure) = only {
                    td.number { (with_unit(figure.median, &figure.unit)) }
                    td.spread { (figure.spread()) }
                    td.number { (figure.rounds) }
                }
            } @else {
                @for (index, figure) in found.iter().enumerate() {
                    td.number { @if let Some(figure) = figure {
                        (with_unit(figure.median, &figure.unit)) (met(figure)) span.spread { (figure.spread()) }
                    } @else { (NOTHING) } }
                    @if index > 0 { (change_cell(found[0], *figure)) }
                }
            }
            td.goal {
                @if let Some((wanted, unit)) = wanted { (goal(wanted, unit)) }
                @if let [Some(figure)] = found[..] { (met(figure)) }
            }
        }
    }
}

fn find_figure<'a>(run: &'a Run, phase: &str, name: &str) -> Option<&'a Figure> {
    run.phases.iter().find(|found| found.name == phase)?.figures.iter().find(|figure| figure.name == name)
}

/// Whether the goal was met, in words as well as in colour.
pub fn met(figure: &Figure) -> Markup {
    markup! {
        @match figure.meets_goal() {
            Some(true) => span.met.good { "met" },
            Some(false) => span.met.bad { "missed" },
            None => {},
        }
    }
}

fn change_cell(first: Option<&Figure>, figure: Option<&Figure>) -> Markup {
    let Some((first, figure)) = first.zip(figure) else {
        return markup! { td.change {} };
    };
    let apart = figure.min > first.max || figure.max < first.min;
    markup! { td.change.within[!apart] { (change(first.median, figure.median).unwrap_or_default()) } }
}

pub fn statuses(runs: &[Run]) -> Markup {
    let any = runs.iter().flat_map(|run| &run.phases).any(|phase| !phase.statuses.is_empty());
    let table = markup! {
        div.scroll { table.narrow {
            @for (index, run) in runs.iter().enumerate() {
                @for phase in run.phases.iter().filter(|phase| !phase.statuses.is_empty()) {
                    tbody {
                        tr.group { th colspan="3" { @if runs.len() > 1 { (run_name(index)) " " } (phase.name) } }
                        @for seen in &phase.statuses {
                            tr { td { (seen.operation) } td.number { (seen.status) } td.number { (count(seen.count)) } }
                        }
                    }
                }
            }
        } }
    };
    section("Statuses", any, &table)
}

/// A heading and its content, if `is_shown`.
pub fn section(heading: &str, is_shown: bool, content: &Markup) -> Markup {
    markup! { @if is_shown { section { h2 { (heading) } (content) } } }
}

/// The runs in which `find` finds something, with their indices.
fn in_runs<'a, T>(runs: &'a [Run], find: impl Fn(&'a Run) -> Option<&'a T>) -> Vec<(usize, &'a T)> {
    runs.iter().enumerate().filter_map(|(index, run)| Some((index, find(run)?))).collect()
}

/// Each phase for which `names` returns any, with these names.
fn by_phase<'a>(runs: &'a [Run], names: impl Fn(&'a Phase) -> Vec<&'a str>) -> Vec<(&'a str, Vec<&'a str>)> {
    let phases = || runs.iter().flat_map(|run| &run.phases);
    let of = |name: &str| in_order(phases().filter(|phase| phase.name == name).flat_map(&names));
    let all = in_order(phases().map(|phase| phase.name.as_str())).into_iter();
    all.map(|name| (name, of(name))).filter(|(_, names)| !names.is_empty()).collect()
}

/// The names without duplicates, in order of first appearance.
pub fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

pub fn latencies(runs: &[Run]) -> Markup {
    let phases = by_phase(runs, |phase| measured(phase).map(|operation| operation.name.as_str()).collect());
    let table = markup! {
        div.scroll { table.latencies {
            thead { tr {
                th {} @if runs.len() > 1 { th {} }
                @for name in ["count", "p50", "p90", "p99", "p99.9", "max"] { th.number { (name) } }
            } }
            @for (phase, operations) in &phases {
                tbody {
                    tr.group { th colspan="8" { (phase) } }
                    @for name in operations { (latency_rows(runs, phase, name)) }
                }
            }
        } }
    };
    section("Latencies", !phases.is_empty(), &table)
}

fn measured(phase: &Phase) -> impl Iterator<Item = &Operation> {
    phase.operations.iter().filter(|operation| operation.count > 0)
}

fn latency_rows(runs: &[Run], phase: &str, name: &str) -> Markup {
    let found = in_runs(runs, |run| {
        let phase = run.phases.iter().find(|found| found.name == phase)?;
        measured(phase).find(|operation| operation.name == name)
    });
    let first = found.first().filter(|(index, _)| *index == 0).map(|(_, operation)| quantiles(operation));
    markup! {
        @for (place, (index, operation)) in found.iter().enumerate() {
            tr {
                @if place == 0 { th rowspan=(found.len()) { (name) } }
                @if runs.len() > 1 { td { (run_name(*index)) } }
                td.number { (count(operation.count)) }
                @for (at, value) in quantiles(operation).into_iter().enumerate() {
                    td.number {
                        (latency(value))
                        @if let Some(first) = first.filter(|_| *index > 0) {
                            span.change { (change(first[at] as f64, value as f64).unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}

fn quantiles(operation: &Operation) -> [u64; 5] {
    let at = operation.latency;
    [at.p50_us, at.p90_us, at.p99_us, at.p999_us, at.max_us]
}

pub fn ratios(runs: &[Run]) -> Markup {
    let names = in_order(runs.iter().flat_map(|run| run.ratios.iter().map(|ratio| ratio.name.as_str())));
    let bars = markup! {
        div.ratios { @for name in &names { (ratio(runs, name)) } }
        p.note { "Bar: median. Thin line: lowest to highest round. Dashed: goal." }
    };
    section("Ratios", !names.is_empty(), &bars)
}

fn ratio(runs: &[Run], name: &str) -> Markup {
    let found = in_runs(runs, |run| run.ratios.iter().find(|ratio| ratio.name == name));
    let wanted = found.iter().find_map(|(_, figure)| figure.goal);
    let bound = wanted.map(bound).filter(|bound| bound.is_finite());
    let values = found.iter().flat_map(|(_, figure)| [figure.median, figure.max]).filter(|value| value.is_finite());
    let end = rounded_up(values.chain(bound.map(|bound| bound * 1.1)).fold(0.0, f64::max));
    markup! {
        div.ratio {
            div.name { (name) @if let Some(wanted) = wanted { span.goal { "goal " (goal(wanted, unit(&found))) } } }
            div.bars {
                @for (index, figure) in &found { (bar(*index, figure, end)) }
                @if let Some(bound) = bound { span.line style={ "left:" (share(bound, end)) "%" } {} }
                div.ends { span { "0" } span { (without_zeros(&plain(end))) } }
            }
            div.values {
                @for (index, figure) in &found {
                    div {
                        @if runs.len() > 1 { (run_name(*index)) " " }
                        b { (with_unit(figure.median, &figure.unit)) } (met(figure)) span.spread { (figure.spread()) }
                    }
                }
            }
        }
    }
}

fn bar(index: usize, figure: &Figure, end: f64) -> Markup {
    let (from, to) = (share(figure.min, end), share(figure.max, end));
    markup! {
        div.bar title={ (with_unit(figure.median, &figure.unit)) " " (figure.spread()) } {
            @if figure.median.is_finite() {
                span.{ "fill s" (index % 8 + 1) } style={ "width:" (share(figure.median, end)) "%" } {}
            }
            @if figure.rounds > 1 && figure.min.is_finite() && figure.max.is_finite() {
                span.whisker style={ "left:" (from) "%;width:" (format!("{:.2}", (to - from).max(0.0))) "%" } {}
            }
        }
    }
}

fn unit<'a>(found: &[(usize, &'a Figure)]) -> &'a str {
    found.first().map_or("", |(_, figure)| figure.unit.as_str())
}

fn bound(goal: Goal) -> f64 {
    match goal {
        Goal::AtLeast(bound) | Goal::AtMost(bound) => bound,
    }
}

/// The length of a bar, in percent of the full length.
fn share(value: f64, end: f64) -> f64 {
    if !value.is_finite() {
        return 0.0;
    }
    ((value / end).clamp(0.0, 1.0) * 10_000.0).round() / 100.0
}

/// A round number for the end of the scale; never zero.
fn rounded_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];
    steps.into_iter().map(|step| step * decade).find(|end| *end >= value).unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_ends_at_a_round_number_that_holds_all() {
        for (value, end) in
            [(0.0, 1.0), (f64::INFINITY, 1.0), (0.83, 1.0), (1.1, 1.2), (13.0, 15.0), (0.42, 0.5), (81.0, 100.0)]
        {
            assert!((rounded_up(value) - end).abs() < 1e-9, "{value}");
        }
        assert_eq!(share(f64::NAN, 1.0), 0.0);
        assert_eq!(share(5.0, 1.0), 100.0);
    }
}
