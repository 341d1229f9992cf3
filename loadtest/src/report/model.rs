//! The JSON form of a run, the computation of figures from measurements, and the verdict on a run. Scripts read these
//! names, so they change only together with `FORMAT`.

use std::collections::BTreeMap;

use hdrhistogram::{Counter, Histogram};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::error::Category;

use crate::report::number::{as_shown, count, counted, with_unit, without_zeros};

pub const FORMAT: u32 = 1;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub format: u32,
    pub scenario: String,
    /// One sentence: what the scenario does.
    pub description: String,
    /// In RFC 3339, UTC.
    pub started_at: String,
    #[serde(deserialize_with = "number_or_null")]
    pub seconds: f64,
    pub interrupted: bool,
    pub target: String,
    /// The settings as shown to a reader: "connections" → "64".
    pub settings: BTreeMap<String, String>,
    /// One phase per compared object: a workload, a queue length, a number of environments, a peer.
    pub phases: Vec<Phase>,
    /// Ratios between phases, computed per round.
    pub ratios: Vec<Figure>,
    pub checks: Vec<Check>,
    /// Errors that broke no rule, with their counts; bounded.
    pub errors: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Phase {
    pub name: String,
    /// Latencies by operation ("claim", "release", "handoff", …).
    pub operations: Vec<Operation>,
    pub statuses: Vec<Status>,
    /// Single values with their spread over the rounds: "cycles per second", "server CPU per cycle", "resident memory".
    pub figures: Vec<Figure>,
    /// In time order; empty if nothing changes over time.
    pub timeline: Vec<Slice>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    pub name: String,
    pub count: u64,
    pub latency: Latency,
    /// (quantile, microseconds) for a plot by percentile, at most a few hundred points.
    #[serde(deserialize_with = "points_or_null")]
    pub distribution: Vec<(f64, u64)>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    pub p50_us: u64,
    pub p90_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    pub max_us: u64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub operation: String,
    pub status: u16,
    pub count: u64,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    pub name: String,
    pub unit: String,
    #[serde(deserialize_with = "number_or_null")]
    pub median: f64,
    #[serde(deserialize_with = "number_or_null")]
    pub min: f64,
    #[serde(deserialize_with = "number_or_null")]
    pub max: f64,
    pub rounds: usize,
    /// The goal, if there is one. A missed goal is reported, but breaks no rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// The events of one stretch of time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Slice {
    /// Seconds since the run began, at the slice's start.
    #[serde(deserialize_with = "number_or_null")]
    pub at: f64,
    #[serde(deserialize_with = "number_or_null")]
    pub seconds: f64,
    pub operations: Vec<SliceOperation>,
    /// Requests in flight at the end of the slice; `waiting` counts the waiting claims among them.
    pub in_flight: u64,
    pub waiting: u64,
    pub errors: u64,
    pub server_cpu_percent: Option<f64>,
    pub server_memory_bytes: Option<u64>,
    /// Events such as "server killed" or "server ready", drawn as lines with these texts.
    pub marks: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceOperation {
    pub name: String,
    pub count: u64,
    pub latency: Latency,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// For example "one holder at a time".
    pub name: String,
    /// Number of grants, pairs or effects that were compared; zero means that the run had nothing to check.
    pub examined: u64,
    pub violation_count: u64,
    /// The first few violations.
    pub violations: Vec<Violation>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    pub what: String,
    /// The requests that show the violation, one line each, in time order.
    pub requests: Vec<String>,
}

/// JSON has no NaN and no infinity: they are written as null, and such a run must still be readable.
fn number_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

fn points_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(f64, u64)>, D::Error> {
    let points: Vec<(Option<f64>, u64)> = Vec::deserialize(from)?;
    Ok(points.into_iter().map(|(quantile, microseconds)| (quantile.unwrap_or(f64::NAN), microseconds)).collect())
}

/// Enough for a plot by percentile.
const MAX_DISTRIBUTION_POINTS: usize = 200;

impl Figure {
    /// The median and spread of one value per round; NaN without values.
    pub fn of(name: &str, unit: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let (rounds, last) = (sorted.len(), sorted.len().saturating_sub(1));
        Self {
            name: name.to_owned(),
            unit: unit.to_owned(),
            median: f64::midpoint(at(last / 2), at(rounds / 2)),
            min: at(0),
            max: at(last),
            rounds,
            goal: None,
        }
    }

    pub fn with_goal(self, goal: Option<Goal>) -> Self {
        Self { goal, ..self }
    }

    pub fn is_measured(&self) -> bool {
        self.rounds > 0
    }

    /// None without a goal or a value. Compares the rounded value, because "1.00, at most 1, missed" would confuse.
    pub fn meets_goal(&self) -> Option<bool> {
        let shown = as_shown(self.median);
        match self.goal? {
            _ if !shown.is_finite() => None,
            Goal::AtLeast(bound) => Some(shown >= bound),
            Goal::AtMost(bound) => Some(shown <= bound),
        }
    }

    /// The range from the lowest to the highest round, with the unit once; empty if there is no range.
    pub fn spread(&self) -> String {
        if self.rounds < 2 || !self.min.is_finite() || !self.max.is_finite() {
            return String::new();
        }
        let [min, max] = [self.min, self.max].map(|value| with_unit(value, &self.unit));
        match (min.split_once(' '), max.split_once(' ')) {
            (Some((digits, unit)), Some((_, same))) if unit == same => format!("{digits} – {max}"),
            (_, _) => format!("{min} – {max}"),
        }
    }
}

impl Latency {
    pub fn of<C: Counter>(histogram: &Histogram<C>) -> Self {
        Self {
            p50_us: histogram.value_at_quantile(0.5),
            p90_us: histogram.value_at_quantile(0.9),
            p99_us: histogram.value_at_quantile(0.99),
            p999_us: histogram.value_at_quantile(0.999),
            max_us: histogram.max(),
        }
    }
}

impl Operation {
    pub fn of<C: Counter>(name: &str, histogram: &Histogram<C>) -> Self {
        let latency = Latency::of(histogram);
        Self { name: name.to_owned(), count: histogram.len(), latency, distribution: distribution(histogram) }
    }
}

/// The steps get finer towards the slowest requests, the subject of such a plot.
fn distribution<C: Counter>(histogram: &Histogram<C>) -> Vec<(f64, u64)> {
    let points = histogram.iter_quantiles(10).map(|step| (step.quantile_iterated_to(), step.value_iterated_to()));
    points.map(|(quantile, value)| (quantile, value.min(histogram.max()))).take(MAX_DISTRIBUTION_POINTS).collect()
}

/// The format of a run's start time.
pub fn now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

/// None instead of infinity or NaN, which JSON cannot represent.
pub fn quotient(dividend: f64, divisor: f64) -> Option<f64> {
    (divisor > 0.0).then(|| dividend / divisor)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No violations, no errors.
    Clean,
    /// No violations, but requests failed.
    Errors,
    /// A rule was broken.
    Violations,
}

/// Why a run's figures are not judged: goals apply only to a full run.
pub fn why_not_judged(is_full: bool, interrupted: bool) -> Option<&'static str> {
    match (is_full, interrupted) {
        (true, false) => None,
        (true, true) => Some("the run was ended early"),
        (false, _) => Some("the run was shorter or smaller than the full one"),
    }
}

impl Run {
    pub fn verdict(&self) -> Verdict {
        if self.violation_count() > 0 {
            Verdict::Violations
        } else if self.error_count() > 0 {
            Verdict::Errors
        } else {
            Verdict::Clean
        }
    }

    pub fn violation_count(&self) -> u64 {
        self.checks.iter().map(Check::found).fold(0, u64::saturating_add)
    }

    pub fn error_count(&self) -> u64 {
        self.errors.values().copied().fold(0, u64::saturating_add)
    }

    /// One line, understandable without context.
    pub fn verdict_sentence(&self) -> String {
        let errors = self.error_count();
        let found = match self.verdict() {
            Verdict::Clean => format!("clean: {}, no errors", self.examined()),
            Verdict::Errors => format!("not clean: {}, but {}", self.examined(), counted(errors, "error")),
            Verdict::Violations => {
                let broken = self.checks.iter().filter(|check| check.found() > 0).count();
                let errors = if errors == 0 { "no errors".to_owned() } else { counted(errors, "error") };
                let violations = counted(self.violation_count(), "violation");
                format!(
                    "NOT CLEAN: {violations} in {broken} of {}, {errors}",
                    counted(self.checks.len() as u64, "check")
                )
            }
        };
        if self.interrupted { format!("{found}; ended early") } else { found }
    }

    fn examined(&self) -> String {
        let held = self.checks.iter().filter(|check| check.examined > 0).count() as u64;
        match (self.checks.len() as u64, held) {
            (0, _) => "nothing was checked".to_owned(),
            (_, 0) => "the checks had nothing to examine".to_owned(),
            (1, 1) => "the check held".to_owned(),
            (all, held) if all == held => format!("all {} held", counted(all, "check")),
            (all, held) => format!("{} held, {} had nothing to examine", counted(held, "check"), count(all - held)),
        }
    }

    /// Keeps the goals only if they are judged; otherwise adds a note with the reason.
    pub fn judged_unless(mut self, why: Option<&str>) -> Self {
        let Some(why) = why else { return self };
        let of_phases = self.phases.iter_mut().flat_map(|phase| &mut phase.figures);
        let mut had_goals = false;
        for figure in of_phases.chain(&mut self.ratios) {
            had_goals |= figure.goal.take().is_some();
        }
        if had_goals {
            self.settings.insert("goals".to_owned(), format!("not judged: {why}"));
        }
        self
    }
}

impl Violation {
    /// A violation that no request shows.
    pub fn of(what: String) -> Self {
        Self { what, requests: Vec::new() }
    }
}

impl Check {
    pub fn new(name: String) -> Self {
        Self { name, examined: 0, violation_count: 0, violations: Vec::new() }
    }

    /// Counts a violation; lists at most `most`.
    pub fn broken(&mut self, most: usize, violation: impl FnOnce() -> Violation) {
        self.violation_count += 1;
        if self.violations.len() < most {
            self.violations.push(violation());
        }
    }

    /// Listed violations count even if the count in the file is lower.
    pub fn found(&self) -> u64 {
        self.violation_count.max(self.violations.len() as u64)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("not JSON: {0}")]
    NotJson(serde_json::Error),
    #[error("the JSON ends too early: {0}")]
    CutOff(serde_json::Error),
    #[error("a run in format {found}, but this loadtest reads format {FORMAT}")]
    OtherFormat { found: Value },
    #[error("JSON, but not a run of a load test: {0}")]
    NotARun(String),
}

pub fn json(run: &Run) -> String {
    let mut text = serde_json::to_string_pretty(run).expect("a run has only strings as keys, so it is always JSON");
    text.push('\n');
    text
}

pub fn read(text: &str) -> Result<Run, ReadError> {
    // A byte order mark, which some editors add, is not part of the JSON.
    let text = text.trim_start_matches('\u{feff}');
    let value: Value = serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Eof => ReadError::CutOff(error),
        Category::Io | Category::Syntax | Category::Data => ReadError::NotJson(error),
    })?;
    // Checked first: another format may have other fields, and a wrong format number is a better error than a missing
    // field.
    match value.get("format") {
        Some(format) if format.as_u64() == Some(FORMAT.into()) => {}
        Some(format) if format.is_number() => return Err(ReadError::OtherFormat { found: format.clone() }),
        Some(_) | None => return Err(ReadError::NotARun("it has no format number".to_owned())),
    }
    // Parsed again from the text: only then do errors have line numbers.
    serde_json::from_str(text).map_err(|error| ReadError::NotARun(error.to_string()))
}

/// A goal as text. Trailing zeros are dropped, since goals are round numbers.
pub fn goal(goal: Goal, unit: &str) -> String {
    let (sign, bound) = match goal {
        Goal::AtLeast(bound) => ("≥", bound),
        Goal::AtMost(bound) => ("≤", bound),
    };
    let text = with_unit(bound, unit);
    let (digits, rest) = text.split_once(' ').map_or((text.as_str(), ""), |(digits, unit)| (digits, unit));
    format!("{sign} {} {rest}", without_zeros(digits)).trim_end().to_owned()
}

#[cfg(test)]
mod measured_tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_or_the_mean_of_the_two_middles() {
        let spread = |values: &[f64]| {
            let figure = Figure::of("rate", "/s", values.iter().copied());
            (figure.median, figure.min, figure.max)
        };
        assert_eq!(spread(&[7.0]), (7.0, 7.0, 7.0));
        assert_eq!(spread(&[9.0, 1.0, 2.0]), (2.0, 1.0, 9.0));
        assert_eq!(spread(&[4.0, 1.0, 9.0, 2.0]), (3.0, 1.0, 9.0));
        assert_eq!(spread(&[f64::NAN, 1.0]), (1.0, 1.0, 1.0));
        let nothing = Figure::of("rate", "/s", []);
        assert!(!nothing.is_measured() && nothing.median.is_nan());
    }

    #[test]
    fn a_distribution_ends_with_the_slowest() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000, 3).expect("valid bounds");
        (1..=100).for_each(|micros| histogram.record(micros).expect("within the bounds"));
        let claim = Operation::of("claim", &histogram);
        assert_eq!((claim.count, claim.latency.p50_us, claim.latency.max_us), (100, 50, 100));
        assert!(claim.distribution.len() <= MAX_DISTRIBUTION_POINTS);
        assert_eq!(claim.distribution.last(), Some(&(1.0, 100)));
    }
}

#[cfg(test)]
mod verdict_tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn a_run_without_violations_and_errors_is_clean() {
        let run = samples::empty();
        assert_eq!(run.verdict(), Verdict::Clean);
        assert_eq!(run.verdict_sentence(), "clean: nothing was checked, no errors");
    }

    #[test]
    fn an_error_is_not_clean_and_a_violation_is_worse() {
        let mut run = samples::cycle();
        run.errors.insert("connection reset".to_owned(), 2);
        assert_eq!(run.verdict(), Verdict::Errors);
        assert_eq!(run.verdict_sentence(), "not clean: all 3 checks held, but 2 errors");
        let run = samples::killed();
        assert_eq!(run.verdict(), Verdict::Violations);
        assert_eq!(run.verdict_sentence(), "NOT CLEAN: 2 violations in 1 of 4 checks, 131 errors; ended early");
    }

    #[test]
    fn a_check_with_nothing_to_examine_is_not_told_as_held() {
        let mut run = samples::cycle();
        run.checks[0].examined = 0;
        assert_eq!(run.verdict_sentence(), "clean: 2 checks held, 1 had nothing to examine, no errors");
    }

    #[test]
    fn a_shown_violation_counts_even_if_the_count_forgot_it() {
        let mut run = samples::killed();
        run.checks.iter_mut().for_each(|check| check.violation_count = 0);
        assert_eq!(run.verdict(), Verdict::Violations);
    }

    #[test]
    fn a_shortened_run_has_figures_and_no_goals() {
        let run = samples::cycle().judged_unless(why_not_judged(false, false));
        let figures = || run.phases.iter().flat_map(|phase| &phase.figures).chain(&run.ratios);
        assert!(figures().count() > 0 && figures().all(|figure| figure.goal.is_none() && figure.median > 0.0));
        let shown = crate::report::text(&run);
        assert!(shown.contains("goals not judged: the run was shorter"), "{shown}");
        assert!(!shown.contains(", met") && !shown.contains(", missed"), "{shown}");
        let full = crate::report::text(&samples::cycle().judged_unless(why_not_judged(true, false)));
        assert!(full.contains(", met") && !full.contains("not judged"), "{full}");
        assert_eq!(why_not_judged(true, true), Some("the run was ended early"));
        let without = samples::empty().judged_unless(why_not_judged(false, false));
        assert!(!without.settings.contains_key("goals"), "there was nothing to judge");
    }

    #[test]
    fn goals_are_met_at_their_bound_and_undecided_without_a_number() {
        let figure = |median, goal| Figure { median, goal, ..Figure::default() };
        assert_eq!(figure(0.75, Some(Goal::AtLeast(0.75))).meets_goal(), Some(true));
        assert_eq!(figure(35.1, Some(Goal::AtMost(35.0))).meets_goal(), Some(false));
        assert_eq!(figure(f64::NAN, Some(Goal::AtMost(35.0))).meets_goal(), None);
        assert_eq!(figure(1.0, None).meets_goal(), None);
        assert_eq!(figure(1.004, Some(Goal::AtMost(1.0))).meets_goal(), Some(true));
        assert_eq!(figure(1.006, Some(Goal::AtMost(1.0))).meets_goal(), Some(false));
    }
}

#[cfg(test)]
mod json_tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn a_run_that_is_written_is_read_back_as_it_was() {
        for run in [samples::empty(), samples::cycle(), samples::long_queue(), samples::killed(), samples::hostile()] {
            let back = read(&json(&run)).expect("what was written");
            assert!(format!("{back:?}") == format!("{run:?}"), "{} changed", run.description);
        }
    }

    #[test]
    fn what_is_not_a_number_is_read_back_as_not_a_number() {
        let back = read(&json(&samples::without_numbers())).expect("what was written");
        assert!(back.seconds.is_nan() && back.ratios[0].max.is_nan());
        assert!(back.phases[0].timeline[0].at.is_nan() && back.phases[0].operations[0].distribution[0].0.is_nan());
    }

    #[test]
    fn a_figure_without_a_goal_has_no_such_field() {
        let mut run = samples::cycle();
        assert!(json(&run).contains("\"goal\": {\n        \"atLeast\": 0.75\n      }"));
        run.ratios
            .iter_mut()
            .chain(run.phases.iter_mut().flat_map(|phase| &mut phase.figures))
            .for_each(|it| it.goal = None);
        assert!(!json(&run).contains("\"goal\""));
    }

    #[test]
    fn an_error_says_whether_it_is_no_json_another_format_or_no_run() {
        let whole = json(&samples::cycle());
        for (text, told) in [
            ("loadtest: done", "not JSON: expected value at line 1 column 1"),
            (&whole[..whole.len() / 2], "the JSON ends too early: EOF while parsing"),
            ("", "the JSON ends too early: EOF while parsing a value at line 1 column 0"),
            ("[1, 2]", "JSON, but not a run of a load test: it has no format number"),
            ("{\"scenario\": \"cycle\"}", "JSON, but not a run of a load test: it has no format number"),
            ("{\"format\": 2, \"other\": []}", "a run in format 2, but this loadtest reads format 1"),
            ("{\"format\": 1}", "JSON, but not a run of a load test: missing field `scenario` at line 1 column 13"),
        ] {
            let error = read(text).expect_err(told).to_string();
            assert!(error.starts_with(told), "{error}");
        }
    }
}
