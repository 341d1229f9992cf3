//! Owns the claims and force-claims of which nobody was told how they went: each may have taken one token, at any time
//! after it was sent.

use std::collections::HashMap;

use crate::history::{Answer, History, Moment, Record, Request};

pub struct UnansweredClaims<'h> {
    by_environment: HashMap<u32, Vec<&'h Record>>,
    /// Claims for any environment: each may have got any of them.
    anywhere: Vec<&'h Record>,
}

impl<'h> UnansweredClaims<'h> {
    pub fn of(history: &'h History) -> Self {
        let mut unanswered = Self { by_environment: HashMap::new(), anywhere: Vec::new() };
        for record in &history.records {
            let any = match record.request {
                Request::Claim { any, .. } => any,
                Request::ForceClaim => false,
                Request::Release { .. }
                | Request::Heartbeat { .. }
                | Request::Deploy { .. }
                | Request::ReadEnvironment
                | Request::ReadSession { .. } => continue,
            };
            if matches!(record.answer, Answer::Granted { .. } | Answer::Refused { .. }) {
                continue;
            }
            match record.environment {
                Some(environment) if !any => unanswered.by_environment.entry(environment).or_default().push(record),
                Some(_) | None => unanswered.anywhere.push(record),
            }
        }
        unanswered
    }

    pub fn all(&self) -> impl Iterator<Item = &'h Record> {
        self.by_environment.values().flatten().chain(&self.anywhere).copied()
    }

    /// How many grants of this environment there may have been of which nobody was told.
    pub fn count(&self, environment: u32) -> usize {
        self.named(environment).len() + self.anywhere.len()
    }

    pub fn about(&self, environment: u32) -> impl Iterator<Item = &'h Record> {
        self.named(environment).iter().chain(&self.anywhere).copied()
    }

    /// From when on a holder may have been displaced without anybody having been told.
    pub fn first_force_claim(&self, environment: u32) -> Option<Moment> {
        let forced = self.named(environment).iter().filter(|record| record.request == Request::ForceClaim);
        forced.map(|record| record.sent).min()
    }

    fn named(&self, environment: u32) -> &[&'h Record] {
        self.by_environment.get(&environment).map_or(&[], Vec::as_slice)
    }
}
