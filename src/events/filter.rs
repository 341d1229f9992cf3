//! Which events somebody wants to see.

use super::event::Occurred;
use super::form::Glance;
use crate::domain::{DeploymentId, Identifier, Notice, SessionId, Timestamp, UserId};

/// All that is said must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub notices: Option<Notices>,
    pub actor: Option<Actor>,
    pub pipeline: Option<Identifier>,
    pub environment: Option<Identifier>,
    pub session: Option<SessionId>,
    pub deployment: Option<DeploymentId>,
    /// From here on.
    pub since: Option<Timestamp>,
    /// Before this.
    pub until: Option<Timestamp>,
}

/// Whose doing it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    User(UserId),
    System,
}

/// Some kinds of events: a bit each, by their place in the list of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notices(u128);

const _: () = assert!(Notice::ALL.len() <= u128::BITS as usize, "every kind has a bit");

impl Notices {
    pub fn add(&mut self, notice: Notice) {
        self.0 |= 1 << notice as u32;
    }

    pub fn has(self, notice: Notice) -> bool {
        self.0 & (1 << notice as u32) != 0
    }
}

impl Filter {
    /// Whether it lets everything through.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    pub fn wants(&self, event: &Glance<'_>) -> bool {
        let is = |wanted: &Option<Identifier>, found: Option<&str>| {
            wanted.as_ref().is_none_or(|wanted| found == Some(wanted.as_str()))
        };
        self.notices.is_none_or(|wanted| wanted.has(event.notice))
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

impl Occurred {
    pub fn glance(&self) -> Glance<'_> {
        Glance {
            notice: self.notice,
            at: self.at,
            pipeline: self.pipeline.as_ref().map(Identifier::as_str),
            environment: self.environment.as_ref().map(Identifier::as_str),
            session: self.session,
            deployment: self.deployment,
            person: self.by.as_ref().map(|agent| agent.person.id),
        }
    }
}
