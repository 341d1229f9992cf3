//! Owns the highest token that had been told by a moment.

use crate::history::{Moment, Record};

pub struct Rising<'h> {
    /// Only where it rises, so that it is as short as it can be.
    steps: Vec<(Moment, u64, &'h Record)>,
}

impl<'h> Rising<'h> {
    pub fn of(told: impl Iterator<Item = (Moment, u64, &'h Record)>) -> Self {
        let mut steps: Vec<_> = told.collect();
        steps.sort_unstable_by_key(|(at, token, _)| (*at, *token));
        let mut highest = None;
        steps.retain(|(_, token, _)| {
            let rises = highest.is_none_or(|highest| *token > highest);
            highest = if rises { Some(*token) } else { highest };
            rises
        });
        Self { steps }
    }

    /// The highest that had been told then, and what told it.
    pub fn by(&self, moment: Moment) -> Option<(u64, &'h Record)> {
        let told = self.steps.partition_point(|(at, _, _)| *at <= moment);
        self.steps[..told].last().map(|(_, token, record)| (*token, *record))
    }
}
