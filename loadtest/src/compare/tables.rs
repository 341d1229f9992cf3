//! Formats a comparison: as text with Markdown tables, and as a run that the report shows like any other; figures are
//! medians over the rounds.

use std::collections::BTreeMap;
use std::fmt::Write;

use clap::ValueEnum;

use crate::compare::plan::{Plan, System, counted};
use crate::compare::rounds::{Key, Outcome, Round};
use crate::compare::turn::Turn;
use crate::compare::work::Work;
use crate::engine::{Operation, Precise};
use crate::report::number::{NOTHING, with_unit};
use crate::report::{Check, FORMAT, Figure, Phase, Run, goal};

/// The results as text. With a reason in `unjudged`, goals are not shown.
pub fn text(plan: &Plan, seen: &Results, goals: &[Figure], unjudged: Option<&str>) -> String {
    let shown = Tables { plan, rounds: &seen.outcome.rounds };
    let (seconds, rounds) = (plan.seconds, shown.rounds.len());
    let over = if rounds == 1 { "one round".to_owned() } else { format!("medians of {rounds} rounds") };
    let mut out = format!(
        "One cycle = claim + release of an exclusive lock, each acknowledged only when durable.\n\
         {} names, {over} with turns of {seconds} s.\n\n",
        plan.names
    );
    table(&mut out, &shown.cycles());
    section(&mut out, "One hot lock", &shown.hot());
    section(&mut out, &format!("Reads over HTTP, {}", counted(plan.read_clients)), &shown.reads());
    if let Some(fdatasync) = shown.median(|round| round.fdatasync_microseconds) {
        _ = writeln!(out, "\nOne fdatasync of this disk, over preallocated blocks: p50 {fdatasync:.0} µs");
    }
    let how = "each ratio within a round; median, and its spread over the rounds";
    match unjudged {
        None => section(&mut out, &format!("Goals ({how})"), &goal_rows(goals)),
        Some(why) => section(&mut out, &format!("Ratios ({how}); not held against goals: {why}"), &ratio_rows(goals)),
    }
    for (system, reason) in &seen.left_out {
        _ = writeln!(out, "\nLeft out: {}: {reason}", system.title());
    }
    out
}

struct Tables<'a> {
    plan: &'a Plan,
    rounds: &'a [Round],
}

type Row = Vec<String>;

impl Tables<'_> {
    fn cycles(&self) -> Vec<Row> {
        let reference = self.plan.reference_clients();
        let numbers = self.plan.clients.iter().map(u32::to_string).collect::<Vec<_>>().join(" / ");
        let mut rows = vec![vec![
            String::new(),
            format!("cycles/s at {numbers} clients"),
            format!("claim p50/p99 µs at {reference}"),
            format!("server CPU µs/cycle at {reference}"),
        ]];
        for system in self.systems(Work::Cycle) {
            let rate = |clients: &u32| self.cell(Work::Cycle, *clients, system).per_second(thousands);
            let cell = self.cell(Work::Cycle, reference, system);
            rows.push(vec![
                system.title().to_owned(),
                self.plan.clients.iter().map(rate).collect::<Vec<_>>().join(" / "),
                cell.quantiles(Operation::Claim),
                cell.cpu(),
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
                System::Lockkeeper | System::Bare | System::Cluster => "waiting in the server",
                System::Etcd | System::EtcdCluster => "its Lock",
                System::Redis | System::Postgres => "polling",
            };
            let mut row = vec![format!("{}, {way}", system.title())];
            for clients in &self.plan.hot_clients {
                let cell = self.cell(Work::Hot, *clients, system);
                row.extend([cell.per_second(whole), cell.quantiles(Operation::Handoff)]);
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
                let cell = self.cell(work, self.plan.read_clients, system);
                let title = format!("{}, {}", system.title(), work.name());
                rows.push(vec![title, cell.per_second(whole), cell.quantiles(Operation::Read), cell.cpu()]);
            }
        }
        rows
    }

    fn systems(&self, work: Work) -> impl Iterator<Item = System> {
        let measured = move |system: &System| {
            self.rounds.iter().any(|round| round.turns.keys().any(|key| key.work == work && key.system == *system))
        };
        System::value_variants().iter().copied().filter(measured)
    }

    fn cell(&self, work: Work, clients: u32, system: System) -> Cell<'_> {
        Cell { tables: self, work, clients, system }
    }

    fn median(&self, value: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        let figure = Figure::of("", "", self.rounds.iter().filter_map(value));
        figure.is_measured().then_some(figure.median)
    }
}

/// The turns of one system at one kind of work with one number of clients.
struct Cell<'a> {
    tables: &'a Tables<'a>,
    work: Work,
    clients: u32,
    system: System,
}

impl Cell<'_> {
    fn per_second(&self, shown: fn(f64) -> String) -> String {
        or_absent(self.median(|turn| turn.per_second(self.work.unit())).map(shown))
    }

    fn quantiles(&self, operation: Operation) -> String {
        let [half, most] = [0.5, 0.99].map(|at| or_absent(self.median(|turn| turn.quantile(operation, at)).map(whole)));
        format!("{half}/{most}")
    }

    fn cpu(&self) -> String {
        or_absent(self.median(|turn| turn.cpu_per(self.work.unit())).map(|cpu| format!("{cpu:.1}")))
    }

    fn median(&self, value: impl Fn(&Turn) -> Option<f64>) -> Option<f64> {
        self.tables.median(|round| value(round.turn(self.work, self.clients, self.system)?))
    }
}

fn goal_rows(goals: &[Figure]) -> Vec<Row> {
    let head = ["", "goal", "median", "min – max", "met"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for figure in goals.iter().filter(|figure| figure.is_measured() || figure.goal.is_some()) {
        let met = match figure.meets_goal() {
            Some(true) => "yes",
            Some(false) => "NO",
            None if figure.goal.is_some() => "not measured",
            None => "",
        };
        rows.push(vec![
            figure.name.clone(),
            figure.goal.map_or_else(String::new, |wanted| goal(wanted, &figure.unit)),
            with_unit(figure.median, &figure.unit),
            figure.spread(),
            met.to_owned(),
        ]);
    }
    rows
}

fn ratio_rows(goals: &[Figure]) -> Vec<Row> {
    let measured = goals.iter().filter(|figure| figure.is_measured());
    let rows = measured.map(|it| vec![it.name.clone(), with_unit(it.median, &it.unit), it.spread()]);
    std::iter::once(["", "median", "min – max"].map(str::to_owned).to_vec()).chain(rows).collect()
}

fn thousands(value: f64) -> String {
    format!("{:.1}k", value / 1000.0)
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn or_absent(text: Option<String>) -> String {
    text.unwrap_or_else(|| NOTHING.to_owned())
}

/// Skips a table with only a header: an interrupted run has not measured everything.
fn section(out: &mut String, title: &str, rows: &[Row]) {
    if rows.len() >= 2 {
        _ = writeln!(out, "\n{title}:\n");
        table(out, rows);
    }
}

/// Aligns the columns: the first to the left, the others to the right.
fn table(out: &mut String, rows: &[Row]) {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for (number, row) in rows.iter().enumerate() {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            *out += &if column == 0 { format!("| {cell}{padding} ") } else { format!("| {padding}{cell} ") };
        }
        *out += "|\n";
        if number == 0 {
            for (column, width) in widths.iter().enumerate() {
                let line = "-".repeat(width + 1);
                *out += &if column == 0 { format!("|{line}-") } else { format!("|{line}:") };
            }
            *out += "|\n";
        }
    }
}

/// The results of a comparison after its servers have stopped.
pub struct Results {
    pub outcome: Outcome,
    pub checks: Vec<Check>,
    /// The systems that were left out, with the reasons.
    pub left_out: Vec<(System, String)>,
}

/// The results as a run. The caller fills in times, target, and whether it was interrupted.
pub fn run(plan: &Plan, seen: Results, goals: Vec<Figure>) -> Run {
    let rounds = &seen.outcome.rounds;
    let syncs = rounds.iter().filter_map(|round| round.fdatasync_microseconds);
    let disk = Figure::of("one fdatasync of the disk, p50", "µs", syncs);
    Run {
        format: FORMAT,
        scenario: "compare".to_owned(),
        description: "The same locks, durable, in Lockkeeper and in its peers, taking turns on one machine".to_owned(),
        started_at: String::new(),
        seconds: 0.0,
        interrupted: false,
        target: String::new(),
        settings: settings(plan, &seen.left_out),
        phases: phases(rounds),
        ratios: goals.into_iter().chain([disk]).filter(Figure::is_measured).collect(),
        checks: seen.checks,
        errors: seen.outcome.errors,
    }
}

fn settings(plan: &Plan, left_out: &[(System, String)]) -> BTreeMap<String, String> {
    let list = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let systems = plan.systems.iter().map(|system| system.title()).collect::<Vec<_>>().join("; ");
    let asked = [
        ("systems", systems),
        ("clients", list(&plan.clients)),
        ("clients at one hot lock", list(&plan.hot_clients)),
        ("clients that read", plan.read_clients.to_string()),
        ("names", plan.names.to_string()),
        ("rounds", plan.rounds.to_string()),
        ("seconds per turn", plan.seconds.to_string()),
    ];
    let left_out = left_out.iter().map(|(system, why)| (format!("left out: {}", system.title()), why.clone()));
    asked.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(left_out).collect()
}

/// The phases, one per system, work and number of clients.
fn phases(rounds: &[Round]) -> Vec<Phase> {
    let mut turns: BTreeMap<Key, Vec<&Turn>> = BTreeMap::new();
    for (key, turn) in rounds.iter().flat_map(|round| &round.turns) {
        turns.entry(*key).or_default().push(turn);
    }
    turns.into_iter().map(|(key, turns)| phase(key, &turns)).collect()
}

fn phase(key: Key, turns: &[&Turn]) -> Phase {
    let (per_second, each) = match key.work {
        Work::Cycle => ("cycles per second", "server CPU per cycle"),
        Work::Hot => ("handoffs per second", "server CPU per handoff"),
        Work::ReadEnvironment | Work::ReadSession => ("requests per second", "server CPU per request"),
    };
    let unit = key.work.unit();
    let of = |name, unit, value: &dyn Fn(&Turn) -> Option<f64>| {
        Figure::of(name, unit, turns.iter().filter_map(|turn| value(turn)))
    };
    let figures = [
        of(per_second, "/s", &|turn| turn.per_second(unit)),
        of(each, "µs", &|turn| turn.cpu_per(unit)),
        of("fsyncs per handoff", "", &Turn::syncs_per_handoff),
    ];
    let mut latencies = Precise::default();
    turns.iter().for_each(|turn| latencies.merge(&turn.latencies));
    Phase {
        name: key.to_string(),
        operations: latencies.into_model(),
        figures: figures.into_iter().filter(Figure::is_measured).collect(),
        ..Phase::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::Goal;

    #[test]
    fn a_table_is_aligned_whatever_its_letters() {
        let rows = [vec!["".to_owned(), "µs".to_owned()], vec!["etcd".to_owned(), "12345".to_owned()]];
        let mut out = String::new();
        table(&mut out, &rows);
        assert_eq!(out, "|      |    µs |\n|------|------:|\n| etcd | 12345 |\n");
    }

    #[test]
    fn a_goal_says_whether_it_was_met_missed_or_not_measured() {
        let figure = |goal, values: &[f64]| Figure::of("g", "", values.iter().copied()).with_goal(goal);
        let goal = Some(Goal::AtLeast(1.0));
        let rows = goal_rows(&[
            figure(goal, &[0.5, 1.234, 3.0]),
            figure(goal, &[0.9]),
            figure(goal, &[]),
            figure(None, &[2.0]),
        ]);
        let last = |row: usize| rows[row][4].as_str();
        assert_eq!(rows[1], ["g", "≥ 1", "1.23", "0.500 – 3.00", "yes"]);
        assert_eq!((last(2), last(3), last(4)), ("NO", "not measured", ""));
        let unjudged = ratio_rows(&[figure(goal, &[0.5, 1.234, 3.0]), figure(goal, &[])]);
        assert_eq!(unjudged[1..], [["g", "1.23", "0.500 – 3.00"]], "the figure, and no verdict");
    }
}
