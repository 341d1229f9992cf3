//! Owns how a comparison is shown as text: tables that can be pasted into a page, with medians over the rounds.

use std::io::{self, Write};

use crate::compare::goals::{Goal, reference_clients};
use crate::compare::options::Plan;
use crate::compare::peer::{System, counted};
use crate::compare::rounds::{Outcome, Round};
use crate::compare::turn::{Operation, Turn};
use crate::compare::work::Work;
use crate::report::model::Check;

const ABSENT: &str = "–";

pub fn write(
    plan: &Plan,
    outcome: &Outcome,
    goals: &[Goal],
    checks: &[Check],
    left_out: &[(System, String)],
    out: &mut impl Write,
) -> io::Result<()> {
    let shown = Shown { plan, rounds: &outcome.rounds };
    let (seconds, rounds) = (plan.length.as_secs(), outcome.rounds.len());
    writeln!(out, "One cycle = claim + release of an exclusive lock, each acknowledged only when durable.")?;
    let over = if rounds == 1 { "one round".to_owned() } else { format!("medians of {rounds} rounds") };
    writeln!(out, "{} names, {over} with turns of {seconds} s.\n", plan.names)?;
    table(out, &shown.cycles())?;
    section(out, "One hot lock", &shown.hot())?;
    section(out, &format!("Reads over HTTP, {}", counted(plan.read_clients)), &shown.reads())?;
    if let Some(fdatasync) = shown.median(|round| round.fdatasync_microseconds) {
        writeln!(out, "\nOne fdatasync of this disk, over preallocated blocks: p50 {fdatasync:.0} µs")?;
    }
    section(out, "Goals (each ratio within a round; median, and its spread over the rounds)", &goal_rows(goals))?;
    for (system, reason) in left_out {
        writeln!(out, "\nLeft out: {}: {reason}", system.title())?;
    }
    faults(outcome, checks, out)
}

fn faults(outcome: &Outcome, checks: &[Check], out: &mut impl Write) -> io::Result<()> {
    let examined: u64 = checks.iter().map(|check| check.examined).sum();
    let violations: u64 = checks.iter().map(|check| check.violation_count).sum();
    let errors: u64 = outcome.errors.values().sum();
    writeln!(out, "\n{examined} grants checked: {violations} violations, {errors} errors")?;
    for check in checks.iter().filter(|check| check.violation_count > 0) {
        writeln!(out, "  violated {} times: {}", check.violation_count, check.name)?;
        for violation in &check.violations {
            writeln!(out, "    {}", violation.what)?;
        }
    }
    for (error, count) in &outcome.errors {
        writeln!(out, "  {count} × {error}")?;
    }
    Ok(())
}

struct Shown<'a> {
    plan: &'a Plan,
    rounds: &'a [Round],
}

type Row = Vec<String>;

impl Shown<'_> {
    fn cycles(&self) -> Vec<Row> {
        let reference = reference_clients(&self.plan.clients);
        let numbers = self.plan.clients.iter().map(u32::to_string).collect::<Vec<_>>().join(" / ");
        let mut rows = vec![vec![
            String::new(),
            format!("cycles/s at {numbers} clients"),
            format!("claim p50/p99 µs at {reference}"),
            format!("server CPU µs/cycle at {reference}"),
        ]];
        for system in self.systems(Work::Cycle) {
            let rates = self.plan.clients.iter().map(|clients| {
                self.of(Work::Cycle, *clients, system, |turn| turn.per_second(Operation::Release)).map(thousands)
            });
            let at = |value: &dyn Fn(&Turn) -> Option<f64>| self.of(Work::Cycle, reference, system, value);
            let quantile = |quantile: f64| at(&|turn| turn.quantile(Operation::Claim, quantile)).map(whole);
            rows.push(vec![
                system.title().to_owned(),
                rates.map(or_absent).collect::<Vec<_>>().join(" / "),
                format!("{}/{}", or_absent(quantile(0.5)), or_absent(quantile(0.99))),
                or_absent(at(&|turn| turn.cpu_per(Operation::Release)).map(|cpu| format!("{cpu:.1}"))),
            ]);
        }
        rows
    }

    fn hot(&self) -> Vec<Row> {
        let mut head = vec![String::new()];
        for clients in &self.plan.hot_clients {
            head.push(format!("handoffs/s at {clients} clients"));
            head.push(format!("handoff p50/p99 µs at {clients}"));
        }
        let mut rows = vec![head];
        for system in self.systems(Work::Hot) {
            let way = match system {
                System::Lockkeeper | System::Bare => "waiting in the server",
                System::Etcd => "its Lock",
                System::Redis | System::Postgres => "polling",
            };
            let mut row = vec![format!("{}, {way}", system.title())];
            for clients in &self.plan.hot_clients {
                let at = |value: &dyn Fn(&Turn) -> Option<f64>| self.of(Work::Hot, *clients, system, value);
                let quantile = |quantile: f64| at(&|turn| turn.quantile(Operation::Handoff, quantile)).map(whole);
                row.push(or_absent(at(&|turn| turn.per_second(Operation::Handoff)).map(whole)));
                row.push(format!("{}/{}", or_absent(quantile(0.5)), or_absent(quantile(0.99))));
            }
            rows.push(row);
        }
        rows
    }

    fn reads(&self) -> Vec<Row> {
        let head = ["", "requests/s", "p50/p99 µs", "server CPU µs/request"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for work in [Work::ReadEnvironment, Work::ReadSession] {
            for system in self.systems(work) {
                let clients = self.plan.read_clients;
                let at = |value: &dyn Fn(&Turn) -> Option<f64>| self.of(work, clients, system, value);
                let quantile = |quantile: f64| at(&|turn| turn.quantile(Operation::Read, quantile)).map(whole);
                rows.push(vec![
                    format!("{}, {}", system.title(), work.name()),
                    or_absent(at(&|turn| turn.per_second(Operation::Read)).map(whole)),
                    format!("{}/{}", or_absent(quantile(0.5)), or_absent(quantile(0.99))),
                    or_absent(at(&|turn| turn.cpu_per(Operation::Read)).map(|cpu| format!("{cpu:.1}"))),
                ]);
            }
        }
        rows
    }

    fn systems(&self, work: Work) -> impl Iterator<Item = System> {
        let measured = move |system: &System| {
            self.rounds.iter().any(|round| round.turns.keys().any(|key| key.work == work && key.system == *system))
        };
        System::ALL.into_iter().filter(measured)
    }

    fn of(&self, work: Work, clients: u32, system: System, value: impl Fn(&Turn) -> Option<f64>) -> Option<f64> {
        self.median(|round| value(round.turn(work, clients, system)?))
    }

    fn median(&self, value: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        super::goals::figure("", "", self.rounds.iter().filter_map(value)).map(|figure| figure.median)
    }
}

fn goal_rows(goals: &[Goal]) -> Vec<Row> {
    let head = ["", "goal", "median", "min – max", "met"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for goal in goals {
        let number = |value: f64| format!("{value:.2}");
        let figure = goal.figure.as_ref();
        let met = match goal.met() {
            Some(true) => "yes",
            Some(false) => "NO",
            None if goal.bound.is_some() => "not measured",
            None => "",
        };
        rows.push(vec![
            goal.name.clone(),
            goal.bound
                .map_or_else(String::new, |bound| format!("{} {}", bound.describe(), unit(goal)).trim().to_owned()),
            or_absent(figure.map(|figure| number(figure.median))),
            or_absent(figure.map(|figure| format!("{} – {}", number(figure.min), number(figure.max)))),
            met.to_owned(),
        ]);
    }
    rows
}

/// A ratio's sign says nothing beside its bound.
fn unit(goal: &Goal) -> &str {
    if goal.unit == "×" { "" } else { goal.unit }
}

fn thousands(value: f64) -> String {
    format!("{:.1}k", value / 1000.0)
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn or_absent(text: Option<String>) -> String {
    text.unwrap_or_else(|| ABSENT.to_owned())
}

/// Nothing, if there is only the head: an interrupted run has not come to everything.
fn section(out: &mut impl Write, title: &str, rows: &[Row]) -> io::Result<()> {
    if rows.len() < 2 {
        return Ok(());
    }
    writeln!(out, "\n{title}:\n")?;
    table(out, rows)
}

/// With the columns aligned: the first to the left, the others to the right.
fn table(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for (number, row) in rows.iter().enumerate() {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            if column == 0 { write!(out, "| {cell}{padding} ")? } else { write!(out, "| {padding}{cell} ")? }
        }
        writeln!(out, "|")?;
        if number == 0 {
            for (column, width) in widths.iter().enumerate() {
                let line = "-".repeat(width + 1);
                if column == 0 { write!(out, "|{line}-")? } else { write!(out, "|{line}:")? }
            }
            writeln!(out, "|")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::goals::Bound;
    use crate::report::model::Figure;

    #[test]
    fn a_table_is_aligned_whatever_its_letters() {
        let rows = [vec!["".to_owned(), "µs".to_owned()], vec!["etcd".to_owned(), "12345".to_owned()]];
        let mut out = Vec::new();
        table(&mut out, &rows).expect("memory takes it");
        let expected = "|      |    µs |\n|------|------:|\n| etcd | 12345 |\n";
        assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
    }

    #[test]
    fn a_goal_says_whether_it_was_met_missed_or_not_measured() {
        let goal = |bound, median: Option<f64>| Goal {
            name: "g".to_owned(),
            unit: "×",
            bound,
            figure: median.map(|median| Figure {
                name: String::new(),
                unit: String::new(),
                median,
                min: 0.5,
                max: 3.0,
                rounds: 3,
                ..Figure::default()
            }),
        };
        let bound = Some(Bound::AtLeast(1.0));
        let rows =
            goal_rows(&[goal(bound, Some(1.234)), goal(bound, Some(0.9)), goal(bound, None), goal(None, Some(2.0))]);
        let last = |row: usize| rows[row][4].as_str();
        assert_eq!(rows[1], ["g", "≥ 1", "1.23", "0.50 – 3.00", "yes"]);
        assert_eq!((last(2), last(3), last(4)), ("NO", "not measured", ""));
    }
}
