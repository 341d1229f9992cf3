//! Filters of events.

use super::event::{EventHead, RecordedEvent};
use domain::{DeploymentId, EventType, Identifier, SessionId, Timestamp, UserId};

/// Conditions that must all hold; unset ones match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub event_types: Option<Notices>,
    pub actor: Option<Actor>,
    pub pipeline: Option<Identifier>,
    pub environment: Option<Identifier>,
    pub session: Option<SessionId>,
    pub deployment: Option<DeploymentId>,
    /// Inclusive.
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub until: Option<Timestamp>,
}

/// The initiator of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    User(UserId),
    System,
}

/// A set of event types: one bit per type, by its position in the list of types.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notices(u128);

const _: () = assert!(EventType::ALL.len() <= u128::BITS as usize, "every kind has a bit");

impl Notices {
    pub fn add(&mut self, event_type: EventType) {
        self.0 |= 1 << event_type as u32;
    }

    pub fn has(self, event_type: EventType) -> bool {
        self.0 & (1 << event_type as u32) != 0
    }
}

impl Filter {
    /// Whether the filter matches every event.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    pub fn wants(&self, event: &EventHead<'_>) -> bool {
        let is = |wanted: &Option<Identifier>, found: Option<&str>| {
            wanted.as_ref().is_none_or(|wanted| found == Some(wanted.as_str()))
        };
        self.event_types.is_none_or(|wanted| wanted.has(event.event_type))
            && self.since.is_none_or(|since| event.at >= since)
            && self.until.is_none_or(|until| event.at < until)
            && is(&self.pipeline, event.pipeline)
            && is(&self.environment, event.environment)
            && self.session.is_none_or(|session| event.session == Some(session))
            && self.deployment.is_none_or(|deployment| event.deployment == Some(deployment))
            && self.actor.is_none_or(|actor| match actor {
                Actor::User(user) => event.person == Some(user),
                Actor::System => event.person.is_none(),
            })
    }
}

impl RecordedEvent {
    pub fn head(&self) -> EventHead<'_> {
        EventHead {
            event_type: self.event_type,
            at: self.at,
            pipeline: self.pipeline.as_ref().map(Identifier::as_str),
            environment: self.environment.as_ref().map(Identifier::as_str),
            session: self.session,
            deployment: self.deployment,
            person: self.by.as_ref().map(|initiator| initiator.person.id),
        }
    }
}
