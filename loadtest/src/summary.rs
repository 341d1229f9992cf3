//! Owns the arithmetic: from what was counted in each round to medians with their spread. Ratios are taken within a
//! round and only then summed up, since the machine's mood changes between rounds.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::client::Workload;
use crate::tally::{Operation, Tally};

/// One workload in one round.
pub struct Measurement {
    pub seconds: f64,
    pub health_checks: u64,
    pub claims: u64,
    pub releases: u64,
    pub reads: u64,
    pub latencies: Vec<(Operation, Quantiles)>,
    pub server_cpu_microseconds: Option<u64>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub max: u64,
}

/// What was measured side by side; an interrupted run has gaps.
#[derive(Default)]
pub struct Round {
    pub health: Option<Measurement>,
    pub cycle: Option<Measurement>,
    pub read: Option<Measurement>,
}

/// One figure of the report; no spread if no round had it.
pub struct Figure {
    pub key: &'static str,
    pub label: &'static str,
    pub decimals: usize,
    pub spread: Option<Spread>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Measurement {
    pub fn new(tally: &Tally, elapsed: Duration, server_cpu_microseconds: Option<u64>) -> Self {
        let latencies = Operation::ALL
            .into_iter()
            .filter_map(|operation| Some((operation, Quantiles::of(tally.latencies(operation))?)))
            .collect();
        Self {
            seconds: elapsed.as_secs_f64(),
            health_checks: tally.count(Operation::Health),
            claims: tally.count(Operation::Claim),
            releases: tally.count(Operation::Release),
            reads: tally.count(Operation::Read),
            latencies,
            server_cpu_microseconds,
        }
    }

    pub fn requests(&self) -> u64 {
        self.health_checks + self.claims + self.releases + self.reads
    }

    pub fn requests_per_second(&self) -> Option<f64> {
        quotient(self.requests() as f64, self.seconds)
    }

    /// A cycle is complete when its release is answered.
    pub fn cycles_per_second(&self) -> Option<f64> {
        quotient(self.releases as f64, self.seconds)
    }

    /// Server CPU microseconds for each of so many requests or cycles.
    fn cpu_per(&self, count: u64) -> Option<f64> {
        quotient(self.server_cpu_microseconds? as f64, count as f64)
    }

    fn quantiles(&self, operation: Operation) -> Option<Quantiles> {
        self.latencies.iter().find(|(of, _)| *of == operation).map(|(_, quantiles)| *quantiles)
    }

    /// One line for who watches the run.
    pub fn describe(&self, workload: Workload) -> String {
        let rate = self.requests_per_second().unwrap_or(0.0);
        match workload {
            Workload::Prepare => format!("preparation, {:.1} s", self.seconds),
            Workload::Health => format!("healthz  {rate:>9.0} requests/s"),
            Workload::Cycle => {
                let cycles = self.cycles_per_second().unwrap_or(0.0);
                format!("cycle    {rate:>9.0} requests/s, {cycles:.0} cycles/s")
            }
            Workload::Read => format!("read     {rate:>9.0} requests/s"),
        }
    }
}

impl Quantiles {
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        (!histogram.is_empty()).then(|| Self {
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            max: histogram.max(),
        })
    }
}

impl Round {
    pub fn record(&mut self, workload: Workload, measurement: Measurement) {
        match workload {
            // Making the environments is no part of any round.
            Workload::Prepare => {}
            Workload::Health => self.health = Some(measurement),
            Workload::Cycle => self.cycle = Some(measurement),
            Workload::Read => self.read = Some(measurement),
        }
    }

    fn health_rate(&self) -> Option<f64> {
        self.health.as_ref()?.requests_per_second()
    }

    fn cycle_rate(&self) -> Option<f64> {
        self.cycle.as_ref()?.requests_per_second()
    }

    fn read_rate(&self) -> Option<f64> {
        self.read.as_ref()?.requests_per_second()
    }

    fn latency(&self, operation: Operation) -> Option<Quantiles> {
        self.cycle.as_ref()?.quantiles(operation)
    }
}

impl Spread {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let upper = sorted[sorted.len() / 2];
        let median = if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[sorted.len() / 2 - 1], upper) };
        Some(Self { median, min, max })
    }
}

/// All figures, in the order in which they are shown.
pub fn figures(rounds: &[Round]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut figure = |key, label, decimals, of: &dyn Fn(&Round) -> Option<f64>| {
        figures.push(Figure { key, label, decimals, spread: Spread::of(rounds.iter().filter_map(of)) });
    };
    figure("healthzRequestsPerSecond", "healthz requests/s", 0, &Round::health_rate);
    figure("cycleRequestsPerSecond", "cycle requests/s", 0, &Round::cycle_rate);
    figure("cyclesPerSecond", "cycles/s", 0, &|round| round.cycle.as_ref()?.cycles_per_second());
    figure("readsPerSecond", "reads/s", 0, &Round::read_rate);
    figure("cycleToHealthz", "cycle requests / healthz", 3, &|round| {
        quotient(round.cycle_rate()?, round.health_rate()?)
    });
    figure("readToHealthz", "reads / healthz", 3, &|round| quotient(round.read_rate()?, round.health_rate()?));
    let claim = |round: &Round| round.latency(Operation::Claim);
    figure("claimP50Microseconds", "claim p50 µs", 0, &|round| Some(claim(round)?.p50 as f64));
    figure("claimP90Microseconds", "claim p90 µs", 0, &|round| Some(claim(round)?.p90 as f64));
    figure("claimP99Microseconds", "claim p99 µs", 0, &|round| Some(claim(round)?.p99 as f64));
    figure("claimMaxMicroseconds", "claim max µs", 0, &|round| Some(claim(round)?.max as f64));
    let release = |round: &Round| round.latency(Operation::Release);
    figure("releaseP50Microseconds", "release p50 µs", 0, &|round| Some(release(round)?.p50 as f64));
    figure("releaseP90Microseconds", "release p90 µs", 0, &|round| Some(release(round)?.p90 as f64));
    figure("releaseP99Microseconds", "release p99 µs", 0, &|round| Some(release(round)?.p99 as f64));
    figure("releaseMaxMicroseconds", "release max µs", 0, &|round| Some(release(round)?.max as f64));
    figure("cpuMicrosecondsPerCycle", "server CPU µs/cycle", 1, &|round| {
        let cycle = round.cycle.as_ref()?;
        cycle.cpu_per(cycle.releases)
    });
    figure("cpuMicrosecondsPerHealthz", "server CPU µs/healthz", 1, &|round| {
        let health = round.health.as_ref()?;
        health.cpu_per(health.requests())
    });
    figure("cpuMicrosecondsPerRead", "server CPU µs/read", 1, &|round| {
        let read = round.read.as_ref()?;
        read.cpu_per(read.requests())
    });
    figures
}

/// None instead of an infinity or a NaN, neither of which JSON can say.
fn quotient(dividend: f64, divisor: f64) -> Option<f64> {
    (divisor > 0.0).then(|| dividend / divisor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(seconds: f64, [health_checks, claims, releases, reads]: [u64; 4], cpu: Option<u64>) -> Measurement {
        let claim = Quantiles { p50: 100, p90: 200, p99: 300, max: 400 };
        Measurement {
            seconds,
            health_checks,
            claims,
            releases,
            reads,
            latencies: vec![(Operation::Claim, claim)],
            server_cpu_microseconds: cpu,
        }
    }

    fn round(health: u64, cycles: u64, reads: u64) -> Round {
        Round {
            health: Some(measurement(2.0, [health, 0, 0, 0], None)),
            cycle: Some(measurement(2.0, [0, cycles, cycles, 0], Some(cycles * 30))),
            read: Some(measurement(2.0, [0, 0, 0, reads], None)),
        }
    }

    fn spread(rounds: &[Round], key: &str) -> Option<Spread> {
        figures(rounds).into_iter().find(|figure| figure.key == key).expect(key).spread
    }

    fn exactly(median: f64, min: f64, max: f64) -> Option<Spread> {
        Some(Spread { median, min, max })
    }

    #[test]
    fn a_median_is_the_middle_or_the_mean_of_the_two_middles() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([7.0]), exactly(7.0, 7.0, 7.0));
        assert_eq!(Spread::of([9.0, 1.0, 2.0]), exactly(2.0, 1.0, 9.0));
        assert_eq!(Spread::of([4.0, 1.0, 9.0, 2.0]), exactly(3.0, 1.0, 9.0));
    }

    #[test]
    fn a_cycle_is_two_requests_and_one_cycle() {
        let rounds = [round(400, 100, 200)];
        assert_eq!(spread(&rounds, "cycleRequestsPerSecond"), exactly(100.0, 100.0, 100.0));
        assert_eq!(spread(&rounds, "cyclesPerSecond"), exactly(50.0, 50.0, 50.0));
        assert_eq!(spread(&rounds, "cpuMicrosecondsPerCycle"), exactly(30.0, 30.0, 30.0));
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The medians of the rates would give 200/800 = 0.25; side by side it is always one half.
        let rounds = [round(400, 100, 200), round(1_600, 400, 800), round(800, 200, 400)];
        assert_eq!(spread(&rounds, "cycleToHealthz"), exactly(0.5, 0.5, 0.5));
        assert_eq!(spread(&rounds, "readToHealthz"), exactly(0.5, 0.5, 0.5));
        assert_eq!(spread(&rounds, "healthzRequestsPerSecond"), exactly(400.0, 200.0, 800.0));
    }

    #[test]
    fn an_interrupted_round_counts_for_what_it_has() {
        let cut_off = Round { health: Some(measurement(1.0, [500, 0, 0, 0], None)), ..Round::default() };
        let rounds = [round(400, 100, 200), cut_off];
        assert_eq!(spread(&rounds, "healthzRequestsPerSecond"), exactly(350.0, 200.0, 500.0));
        assert_eq!(spread(&rounds, "cycleToHealthz"), exactly(0.5, 0.5, 0.5));
    }

    #[test]
    fn a_round_without_a_single_answer_has_no_rate() {
        let rounds = [Round { health: Some(measurement(0.0, [0; 4], Some(5))), ..Round::default() }];
        for key in ["healthzRequestsPerSecond", "cycleToHealthz", "cpuMicrosecondsPerHealthz", "cyclesPerSecond"] {
            assert_eq!(spread(&rounds, key), None, "{key}");
        }
    }

    #[test]
    fn quantiles_come_from_the_histogram_and_an_empty_one_has_none() {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000, 3).expect("valid bounds");
        assert_eq!(Quantiles::of(&histogram), None);
        (1..=100).for_each(|microseconds| histogram.saturating_record(microseconds));
        assert_eq!(Quantiles::of(&histogram), Some(Quantiles { p50: 50, p90: 90, p99: 99, max: 100 }));
    }
}
