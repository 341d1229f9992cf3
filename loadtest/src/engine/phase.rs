//! Owns what is gathered of one phase over its rounds, and its form in the report: medians with their spread.

use std::collections::BTreeMap;

use hdrhistogram::{Counter, Histogram};

use crate::engine::tally::{Operation, Precise};
use crate::engine::timeline::Timeline;
use crate::report::model;

/// A plot by percentile needs no more.
const MAX_DISTRIBUTION_POINTS: usize = 200;

pub struct Phase {
    pub name: String,
    pub latencies: Precise,
    pub statuses: BTreeMap<(Operation, u16), u64>,
    pub figures: Figures,
    pub timeline: Timeline,
}

/// Named values, one for each round, in the order in which they were first given.
#[derive(Default)]
pub struct Figures(Vec<(String, &'static str, Vec<f64>)>);

impl Figures {
    /// One round's value; none where it could not be had.
    pub fn add(&mut self, name: &str, unit: &'static str, value: Option<f64>) {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        match self.0.iter_mut().find(|(known, ..)| known == name) {
            Some((_, _, values)) => values.push(value),
            None => self.0.push((name.to_owned(), unit, vec![value])),
        }
    }

    pub fn into_model(self) -> Vec<model::Figure> {
        self.0.into_iter().filter_map(|(name, unit, values)| spread(name, unit, values)).collect()
    }
}

impl Phase {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            latencies: Precise::default(),
            statuses: BTreeMap::new(),
            figures: Figures::default(),
            timeline: Timeline::default(),
        }
    }

    pub fn into_model(self) -> model::Phase {
        let operations = Operation::ALL
            .into_iter()
            .filter_map(|operation| Some((operation, self.latencies.of(operation)?)))
            .map(|(operation, histogram)| model::Operation {
                name: operation.name().to_owned(),
                count: histogram.len(),
                latency: latency(histogram),
                distribution: distribution(histogram),
            })
            .collect();
        let statuses = self.statuses.into_iter().map(|((operation, status), count)| model::Status {
            operation: operation.name().to_owned(),
            status,
            count,
        });
        model::Phase {
            name: self.name,
            operations,
            statuses: statuses.collect(),
            figures: self.figures.into_model(),
            timeline: self.timeline.into_slices(),
        }
    }
}

pub fn latency<C: Counter>(histogram: &Histogram<C>) -> model::Latency {
    model::Latency {
        p50_us: histogram.value_at_quantile(0.5),
        p90_us: histogram.value_at_quantile(0.9),
        p99_us: histogram.value_at_quantile(0.99),
        p999_us: histogram.value_at_quantile(0.999),
        max_us: histogram.max(),
    }
}

fn distribution(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
    // Finer and finer towards the slowest, which are what such a plot is for.
    let points = histogram.iter_quantiles(10).map(|step| (step.quantile_iterated_to(), step.value_iterated_to()));
    points.map(|(quantile, value)| (quantile, value.min(histogram.max()))).take(MAX_DISTRIBUTION_POINTS).collect()
}

fn spread(name: String, unit: &str, mut values: Vec<f64>) -> Option<model::Figure> {
    values.sort_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    let upper = values[values.len() / 2];
    let median = if values.len() % 2 == 1 { upper } else { f64::midpoint(values[values.len() / 2 - 1], upper) };
    Some(model::Figure { name, unit: unit.to_owned(), median, min, max, rounds: values.len(), goal: None })
}

/// None instead of an infinity or a NaN, neither of which JSON can say.
pub fn quotient(dividend: f64, divisor: f64) -> Option<f64> {
    (divisor > 0.0).then(|| dividend / divisor)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn median_of(values: &[f64]) -> Option<(f64, f64, f64)> {
        let mut figures = Figures::default();
        values.iter().for_each(|value| figures.add("rate", "1/s", Some(*value)));
        figures.into_model().first().map(|figure| (figure.median, figure.min, figure.max))
    }

    #[test]
    fn a_median_is_the_middle_or_the_mean_of_the_two_middles() {
        assert_eq!(median_of(&[]), None);
        assert_eq!(median_of(&[7.0]), Some((7.0, 7.0, 7.0)));
        assert_eq!(median_of(&[9.0, 1.0, 2.0]), Some((2.0, 1.0, 9.0)));
        assert_eq!(median_of(&[4.0, 1.0, 9.0, 2.0]), Some((3.0, 1.0, 9.0)));
        assert_eq!(median_of(&[f64::NAN, 1.0]), Some((1.0, 1.0, 1.0)));
    }

    #[test]
    fn a_phase_shows_the_operations_that_occurred() {
        let mut phase = Phase::new("cycle");
        (1..=100).for_each(|micros| phase.latencies.record(Operation::Claim, Duration::from_micros(micros)));
        let model = phase.into_model();
        assert_eq!(model.operations.len(), 1);
        let claim = &model.operations[0];
        assert_eq!(
            (claim.name.as_str(), claim.count, claim.latency.p50_us, claim.latency.max_us),
            ("claim", 100, 50, 100)
        );
        assert!(claim.distribution.len() <= MAX_DISTRIBUTION_POINTS);
        assert_eq!(claim.distribution.last(), Some(&(1.0, 100)));
    }
}
