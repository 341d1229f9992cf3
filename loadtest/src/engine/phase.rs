//! Owns what is gathered of one phase over its rounds, and its form in the report: medians with their spread.

use std::collections::BTreeMap;

use crate::engine::tally::{Operation, Precise};
use crate::engine::timeline::Timeline;
use crate::report::model::{self, Figure, Goal};

pub struct Phase {
    pub name: String,
    pub latencies: Precise,
    pub statuses: BTreeMap<(Operation, u16), u64>,
    pub figures: Figures,
    pub timeline: Timeline,
}

/// Named values, one for each round, in the order in which they were first given; and what some of them should be.
#[derive(Default)]
pub struct Figures {
    values: Vec<(String, &'static str, Vec<f64>)>,
    goals: BTreeMap<String, Goal>,
}

impl Figures {
    /// One round's value; none where it could not be had.
    pub fn add(&mut self, name: &str, unit: &'static str, value: Option<f64>) {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        match self.values.iter_mut().find(|(known, ..)| known == name) {
            Some((_, _, values)) => values.push(value),
            None => self.values.push((name.to_owned(), unit, vec![value])),
        }
    }

    pub fn aim(&mut self, name: &str, goal: Goal) {
        self.goals.insert(name.to_owned(), goal);
    }

    pub fn into_model(self) -> Vec<Figure> {
        let figure = |(name, unit, values): (String, _, _)| {
            Figure::of(&name, unit, values).with_goal(self.goals.get(&name).copied())
        };
        self.values.into_iter().map(figure).collect()
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
        let statuses = self.statuses.into_iter().map(|((operation, status), count)| model::Status {
            operation: operation.name().to_owned(),
            status,
            count,
        });
        model::Phase {
            name: self.name,
            operations: self.latencies.into_model(),
            statuses: statuses.collect(),
            figures: self.figures.into_model(),
            timeline: self.timeline.into_slices(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_figure_has_a_value_for_each_round_that_had_one_and_its_goal() {
        let mut figures = Figures::default();
        [Some(3.0), None, Some(f64::NAN), Some(1.0)].into_iter().for_each(|value| figures.add("rate", "/s", value));
        figures.aim("rate", Goal::AtLeast(2.0));
        figures.aim("never measured", Goal::AtMost(1.0));
        let shown = figures.into_model();
        assert_eq!(shown.len(), 1);
        assert_eq!((shown[0].median, shown[0].rounds, shown[0].meets_goal()), (2.0, 2, Some(true)));
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
    }
}
