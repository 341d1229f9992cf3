//! The report for a terminal: the settings, the measurements, the checks, and a last line that says whether the run was
//! clean.

use std::fmt::Write;

use crate::report::model::{Check, Figure, Phase, Run, Violation, goal};
use crate::report::number::{NOTHING, count, latency, seconds, with_unit};
use crate::report::text::Align::{Left, Right};

/// From this many phases on, they are also compared in one table.
const MANY_PHASES: usize = 4;
/// Maximum width of the lines that are wrapped here.
const WIDTH: usize = 100;

pub fn text(run: &Run) -> String {
    let mut out = String::new();
    heading(&mut out, run);
    for phase in &run.phases {
        self::phase(&mut out, phase);
    }
    side_by_side(&mut out, &run.phases);
    if !run.ratios.is_empty() {
        out.push('\n');
        figures(&mut out, "ratios", &run.ratios);
    }
    out.push_str(&outcome(run));
    out
}

/// The checks, the errors, and the sentence that says whether the run was clean.
pub fn outcome(run: &Run) -> String {
    let mut out = String::new();
    checks(&mut out, &run.checks);
    errors(&mut out, run);
    out.push('\n');
    out.push_str(&run.verdict_sentence());
    out.push('\n');
    out
}

fn heading(out: &mut String, run: &Run) {
    wrapped(out, "", &format!("{}: {}", printable(&run.scenario), printable(&run.description)));
    let end = if run.interrupted { ", ended early" } else { "" };
    let when = printable(&run.started_at);
    wrapped(out, "", &format!("{}, {when}, {}{end}", printable(&run.target), seconds(run.seconds)));
    let settings: Vec<String> =
        run.settings.iter().map(|(name, value)| format!("{} {}", printable(name), printable(value))).collect();
    if !settings.is_empty() {
        wrapped(out, "", &settings.join(", "));
    }
}

fn phase(out: &mut String, phase: &Phase) {
    out.push('\n');
    figures(out, &phase.name, &phase.figures);
    let mut table = Table::new(&[Right; 6]);
    for operation in &phase.operations {
        if table.is_empty() {
            table.row(["  latency", "count", "p50", "p90", "p99", "p99.9", "max"].map(str::to_owned));
        }
        let at = operation.latency;
        let [p50, p90, p99, p999, max] = match operation.count {
            0 => [NOTHING; 5].map(str::to_owned),
            _ => [at.p50_us, at.p90_us, at.p99_us, at.p999_us, at.max_us].map(latency),
        };
        table.row([format!("  {}", printable(&operation.name)), count(operation.count), p50, p90, p99, p999, max]);
    }
    table.render(out);
    let statuses: Vec<String> = phase
        .statuses
        .iter()
        .map(|seen| format!("{} {} × {}", printable(&seen.operation), seen.status, count(seen.count)))
        .collect();
    if !statuses.is_empty() {
        wrapped(out, "  ", &format!("statuses: {}", statuses.join(", ")));
    }
}

/// Many phases of one kind, one line each: the median of every figure that all of them have.
fn side_by_side(out: &mut String, phases: &[Phase]) {
    let value = |phase: &Phase, name: &str| {
        let figure = phase.figures.iter().find(|figure| figure.name == name)?;
        Some(with_unit(figure.median, &figure.unit))
    };
    let names: Vec<&str> =
        phases.first().map_or(&[][..], |first| &first.figures).iter().map(|figure| figure.name.as_str()).collect();
    let common: Vec<&str> =
        names.into_iter().filter(|name| phases.iter().all(|phase| value(phase, name).is_some())).collect();
    if phases.len() < MANY_PHASES || common.len() < 2 {
        return;
    }
    out.push('\n');
    let mut table = Table::new(&vec![Right; common.len()]);
    table.row(std::iter::once(String::new()).chain(common.iter().map(|name| printable(name))).collect::<Vec<_>>());
    for phase in phases {
        let cells = common.iter().map(|name| value(phase, name).unwrap_or_default());
        table.row(std::iter::once(printable(&phase.name)).chain(cells).collect::<Vec<_>>());
    }
    table.render(out);
}

fn figures(out: &mut String, heading: &str, figures: &[Figure]) {
    let mut table = Table::new(&[Right, Left, Right, Left]);
    let any_goal = figures.iter().any(|figure| figure.goal.is_some());
    let [median, spread, rounds, wanted] = match figures.is_empty() {
        true => [""; 4],
        false => ["median", "min – max", "rounds", if any_goal { "goal" } else { "" }],
    };
    table.row([printable(heading), median.into(), spread.into(), rounds.into(), wanted.into()]);
    for figure in figures {
        let (median, spread) = (with_unit(figure.median, &figure.unit), figure.spread());
        let wanted = figure.goal.map_or_else(String::new, |wanted| {
            let met = match figure.meets_goal() {
                Some(true) => ", met",
                Some(false) => ", missed",
                None => "",
            };
            format!("{}{met}", goal(wanted, &figure.unit))
        });
        table.row([format!("  {}", printable(&figure.name)), median, spread, figure.rounds.to_string(), wanted]);
    }
    table.render(out);
}

fn checks(out: &mut String, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    out.push('\n');
    let mut table = Table::new(&[Right, Right, Left]);
    table.row(["checks", "examined", "violations", ""].map(str::to_owned));
    for check in checks {
        let found = check.found();
        let remark = match (found, check.examined) {
            (0, 0) => "nothing to examine",
            (0, _) => "",
            (_, _) => "BROKEN",
        };
        table.row([format!("  {}", printable(&check.name)), count(check.examined), count(found), remark.to_owned()]);
    }
    table.render(out);
    for check in checks.iter().filter(|check| !check.violations.is_empty()) {
        let shown = check.violations.len() as u64;
        let first = if shown < check.found() { format!(" (the first {shown})") } else { String::new() };
        let _ = writeln!(out, "\nbroken: {}{first}", printable(&check.name));
        for violation in &check.violations {
            self::violation(out, violation);
        }
    }
}

fn violation(out: &mut String, violation: &Violation) {
    wrapped(out, "  ", &printable(&violation.what));
    for request in &violation.requests {
        // Not wrapped, because requests are compared line by line and searched.
        let _ = writeln!(out, "    {}", printable(request));
    }
}

fn errors(out: &mut String, run: &Run) {
    if run.errors.is_empty() {
        return;
    }
    out.push_str("\nerrors\n");
    for (what, times) in &run.errors {
        let _ = writeln!(out, "{:>10} × {}", count(*times), printable(what));
    }
}

/// Wraps a text, only between words.
fn wrapped(out: &mut String, indent: &str, text: &str) {
    let mut column = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column == 0 {
            out.push_str(indent);
            column = indent.len();
        } else if column + 1 + width > WIDTH {
            let _ = write!(out, "\n{indent}  ");
            column = indent.len() + 2;
        } else {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out.push('\n');
}

/// Makes text from a server printable: it must neither control the terminal nor break a row.
fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '·' } else { character }).collect()
}

const GAP: usize = 3;
/// A longer first cell gets a separate line, so that one long name does not push all values out of sight.
const WIDEST_NAME: usize = 40;

/// A table. The first column is left-aligned, the others as given.
struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Copy)]
enum Align {
    Left,
    Right,
}

impl Table {
    fn new(columns: &[Align]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Leading spaces of the first cell are its indentation.
    fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into());
        debug_assert_eq!(self.rows[self.rows.len() - 1].len(), self.columns.len() + 1);
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn render(&self, out: &mut String) {
        let widths = self.widths();
        for row in &self.rows {
            let mut line = String::new();
            for (index, cell) in row.iter().enumerate() {
                let padding = " ".repeat(widths[index].saturating_sub(cell.chars().count()));
                let left = index == 0 || matches!(self.columns[index - 1], Left);
                line.push_str(if left { cell } else { &padding });
                if index == 0 && cell.chars().count() > widths[0] {
                    line.push('\n');
                    line.push_str(&" ".repeat(widths[0]));
                }
                line.push_str(if left { &padding } else { cell });
                line.push_str(&" ".repeat(GAP));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }

    fn widths(&self) -> Vec<usize> {
        let widest = |index: usize, limit: usize| {
            let widths = self.rows.iter().map(|row| row[index].chars().count());
            widths.filter(|width| *width <= limit).max().unwrap_or(0)
        };
        (0..=self.columns.len()).map(|index| widest(index, if index == 0 { WIDEST_NAME } else { usize::MAX })).collect()
    }
}

#[cfg(test)]
mod text_tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn a_run_reads_like_this() {
        assert_eq!(text(&samples::cycle()), SAMPLE);
    }

    const SAMPLE: &str = "\
cycle: claims and releases environments, side by side with reads and with health checks that do
  nothing
127.0.0.1:7700, 2026-03-04T09:00:00Z, 90.0 s
connections 64, environments 1,000, rounds 3, threads 2

healthz                    median   min – max            rounds
  requests per second   76,300 /s   75,120 – 77,004 /s        3
  latency       count      p50      p90       p99     p99.9       max
  healthz   2,289,000   487 µs   883 µs   1.93 ms   3.72 ms   17.7 ms

cycle                       median   min – max            rounds   goal
  cycles per second      29,812 /s   28,900 – 31,004 /s        3
  server CPU per cycle     36.4 µs   35.9 – 37.2 µs            3   ≤ 35 µs, missed
  resident memory           148 MB   131 – 160 MB              3
  latency     count      p50       p90       p99     p99.9       max
  claim     894,360   763 µs   1.38 ms   3.03 ms   5.83 ms   23.8 ms
  release   894,360   746 µs   1.35 ms   2.96 ms   5.70 ms   23.3 ms
  statuses: claim 201 × 894,360, release 200 × 894,360

read                       median   min – max            rounds
  requests per second   59,440 /s   57,000 – 61,004 /s        3
  latency       count      p50       p90       p99     p99.9       max
  read      1,783,200   609 µs   1.10 ms   2.42 ms   4.66 ms   21.3 ms

ratios                       median   min – max       rounds   goal
  cycle requests / healthz    0.781   0.768 – 0.795        3   ≥ 0.75, met
  reads / healthz             0.779   0.741 – 0.812        3   ≥ 0.8, missed
  claim p50 / fdatasync        1.32   1.28 – 1.61          3   ≤ 1.5, met

checks                                   examined   violations
  one holder at a time                    894,360            0
  fencing tokens rise                     894,360            0
  what was acknowledged is still there      1,000            0

clean: all 3 checks held, no errors
";

    #[test]
    fn violations_are_shown_with_their_requests_and_errors_with_their_count() {
        let told = text(&samples::killed());
        for part in ["BROKEN", "broken: one holder at a time", "    client 12", "       128 × connection reset by peer"]
        {
            assert!(told.contains(part), "{part} in\n{told}");
        }
        assert!(told.ends_with("; ended early\n"), "{told}");
    }

    #[test]
    fn no_line_of_a_sample_is_wider_than_a_hundred_columns() {
        for run in [samples::cycle(), samples::long_queue(), samples::killed()] {
            for line in text(&run).lines().filter(|line| !line.starts_with("    ")) {
                assert!(line.chars().count() <= 100, "{line}");
            }
        }
    }

    #[test]
    fn what_a_server_sent_cannot_steer_the_terminal() {
        let mut run = samples::empty();
        run.errors.insert("\u{1b}[2Jgone\nclean: really".to_owned(), 1);
        let told = text(&run);
        assert!(told.contains("1 × ·[2Jgone·clean: really\n"), "{told}");
    }

    #[test]
    fn many_phases_of_one_kind_are_shown_side_by_side() {
        let mut run = samples::cycle();
        let phase = |name: &str, median| {
            let figure = |name: &str, unit: &str| Figure::of(name, unit, [median]);
            let figures = vec![figure("no grant for", "s"), figure("lost", "count")];
            Phase { name: name.to_owned(), figures, ..Phase::default() }
        };
        run.phases = vec![phase("killed", 5.5), phase("paused", 7.0), phase("cut off", 1.0)];
        assert!(!text(&run).contains("no grant for   lost"));
        run.phases.push(phase("full", 2.0));
        assert!(
            text(&run).contains("\n          no grant for   lost\nkilled          5.50 s      6\n"),
            "{}",
            text(&run)
        );
    }

    #[test]
    fn a_run_without_anything_still_ends_with_its_verdict() {
        assert!(text(&samples::empty()).ends_with("\nclean: nothing was checked, no errors\n"));
        assert!(text(&samples::without_numbers()).contains('–'));
    }
}

#[cfg(test)]
mod table_tests {
    use super::*;

    #[test]
    fn columns_line_up_and_a_long_name_has_its_own_line() {
        let mut table = Table::new(&[Right, Left]);
        table.row(["".into(), "median".into(), "min – max".into()]);
        table.row(["  cycles".into(), "29,812".into(), "1 – 2".into()]);
        let long = "n".repeat(WIDEST_NAME + 1);
        table.row([long.clone(), "7".into(), "".into()]);
        let mut text = String::new();
        table.render(&mut text);
        assert_eq!(
            text,
            format!("           median   min – max\n  cycles   29,812   1 – 2\n{long}\n                7\n")
        );
    }
}
