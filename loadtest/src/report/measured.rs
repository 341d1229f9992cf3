//! Owns how measurements become what the model says of them: values of several rounds one figure, a histogram the
//! latencies of an operation.

use hdrhistogram::{Counter, Histogram};

use super::model::{Figure, Goal, Latency, Operation};

/// A plot by percentile needs no more.
const MAX_DISTRIBUTION_POINTS: usize = 200;

impl Figure {
    /// The median with its spread, of one value for each round. Without any it is not a number.
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

/// Finer and finer towards the slowest, which are what such a plot is for.
fn distribution<C: Counter>(histogram: &Histogram<C>) -> Vec<(f64, u64)> {
    let points = histogram.iter_quantiles(10).map(|step| (step.quantile_iterated_to(), step.value_iterated_to()));
    points.map(|(quantile, value)| (quantile, value.min(histogram.max()))).take(MAX_DISTRIBUTION_POINTS).collect()
}

/// As a run says when it began.
pub fn now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

/// None instead of an infinity or a NaN, neither of which JSON can say.
pub fn quotient(dividend: f64, divisor: f64) -> Option<f64> {
    (divisor > 0.0).then(|| dividend / divisor)
}

#[cfg(test)]
mod tests {
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
