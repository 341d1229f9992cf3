//! Owns the page's tables: what was asked for, the figures with their spread and their change from run to run, statuses.

use maud::{Markup, html as markup};

use crate::report::model::{Figure, Phase, Run};
use crate::report::number::{NOTHING, change, count, goal, seconds, with_unit};

/// "A", "B", … with the run's colour, as in the plots.
pub fn run_name(index: usize) -> Markup {
    let letter = u32::try_from(index).ok().filter(|index| *index < 26).and_then(|index| char::from_u32(65 + index));
    let name = letter.map_or_else(|| (index + 1).to_string(), String::from);
    markup! { span.run { i.{ "s" (index % 8 + 1) } {} (name) } }
}

/// What was run: a line for one, a table with a column each for several.
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

/// Each phase's figures: its row for each name, its column for each run.
pub fn figures(runs: &[Run]) -> Markup {
    let phases: Vec<(&str, Vec<&str>)> = phase_names(runs)
        .into_iter()
        .map(|name| (name, in_order(of_phase(runs, name).flat_map(|phase| &phase.figures).map(|it| it.name.as_str()))))
        .filter(|(_, figures)| !figures.is_empty())
        .collect();
    let several = runs.len() > 1;
    let any_goal = runs.iter().flat_map(|run| &run.phases).flat_map(|it| &it.figures).any(|it| it.goal.is_some());
    markup! {
        @if !phases.is_empty() {
            section {
                h2 { "Figures" }
                div.scroll { table.figures {
                    thead { tr {
                        th { @if several { "median, min – max over the rounds" } }
                        @if several {
                            @for index in 0..runs.len() { th.number { (run_name(index)) } @if index > 0 { th.change { "against A" } } }
                        } @else { th.number { "median" } th { "min – max" } th.number { "rounds" } }
                        th { @if any_goal { "goal" } }
                    } }
                    @for (phase, names) in phases {
                        tbody {
                            tr.group { th colspan=(2 * runs.len() + 4) { (phase) } }
                            @for name in names { (figure_row(runs, phase, name)) }
                        }
                    }
                } }
                @if several { p.note { "A change in grey is within the spread of the rounds." } }
            }
        }
    }
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

/// Words beside the colour: not everybody sees it.
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
    markup! {
        @if any {
            section {
                h2 { "Statuses" }
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
            }
        }
    }
}

pub fn phase_names(runs: &[Run]) -> Vec<&str> {
    in_order(runs.iter().flat_map(|run| run.phases.iter().map(|phase| phase.name.as_str())))
}

pub fn of_phase<'a>(runs: &'a [Run], name: &str) -> impl Iterator<Item = &'a Phase> {
    runs.iter().flat_map(|run| &run.phases).filter(move |phase| phase.name == name)
}

/// Each once, where it first came up.
pub fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}
