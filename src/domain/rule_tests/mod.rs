//! Tests of single rules of the domain. Random scripts and the simulation find faults in the interaction of rules;
//! these tests show which rule is broken.

#![allow(clippy::unwrap_used)]

mod claiming;
mod configuring;
mod deploying;
mod invariants;
mod pooling;
mod queueing;
mod stages;
mod values;

use std::sync::Arc;

use super::samples::{Subject, claim, person};
use super::*;

/// An environment locked by person 1 as session 1.
fn locked() -> Subject {
    let mut subject = Subject::with(Configuration::default());
    subject.run(0, claim(1)).unwrap();
    subject
}

fn holder(subject: &Subject) -> &Arc<Session> {
    subject.environment.lock.as_ref().unwrap()
}

fn release(subject: &mut Subject) -> Outcome {
    let session = holder(subject).id.into();
    subject.run(10, Release { session, by: person(1), any: true }).unwrap().1
}

fn types(outcome: &Outcome) -> Vec<EventType> {
    outcome.events.iter().map(|event| event.event_type()).collect()
}
