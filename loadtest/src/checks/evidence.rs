//! Owns what follows from a history before any rule is asked: who was granted what, and from when until when each one
//! certainly held its lock.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use super::unanswered_claims::UnansweredClaims;
use super::{holding, retries};
use crate::history::{Answer, History, Moment, Record, Request, SessionName};

pub struct Evidence<'h> {
    pub history: &'h History,
    /// One for each session, by environment, then in the order in which they were told.
    pub grants: Vec<Grant<'h>>,
    pub unanswered: UnansweredClaims<'h>,
    /// Answers that grant one session twice, but not the same lock or token.
    pub contradictions: Vec<(&'h Record, &'h Record)>,
    by_session: HashMap<&'h SessionName, usize>,
}

pub struct Grant<'h> {
    /// The answer that told it; the first of them, if it was told again.
    pub record: &'h Record,
    pub session: &'h SessionName,
    pub environment: u32,
    pub token: u64,
    /// It did not take place before this: when its claim was sent, for the first time if it may have been sent again.
    pub earliest: Moment,
    /// It certainly had the lock from when it was told until here, if this is later.
    pub held_until: Moment,
    /// The release that was sent first, whatever came of it.
    pub release: Option<&'h Record>,
    /// The release that was acknowledged first.
    pub released: Option<&'h Record>,
}

impl<'h> Evidence<'h> {
    pub fn of(history: &'h History) -> Self {
        let unanswered = UnansweredClaims::of(history);
        let mut evidence =
            Self { history, grants: Vec::new(), unanswered, contradictions: Vec::new(), by_session: HashMap::new() };
        for record in &history.records {
            evidence.learn(record);
        }
        evidence.grants.sort_unstable_by_key(|grant| (grant.environment, grant.told(), grant.token));
        for (place, grant) in evidence.grants.iter().enumerate() {
            evidence.by_session.insert(grant.session, place);
        }
        retries::set_back(&mut evidence.grants, &evidence.unanswered);
        evidence.learn_releases();
        holding::settle(&mut evidence);
        evidence
    }

    pub fn grant_of(&self, session: &SessionName) -> Option<&Grant<'h>> {
        self.place_of(session).map(|place| &self.grants[place])
    }

    pub fn place_of(&self, session: &SessionName) -> Option<usize> {
        self.by_session.get(session).copied()
    }

    /// The grants of each environment that has any.
    pub fn by_environment(&self) -> impl Iterator<Item = (u32, &[Grant<'h>])> {
        let same = |one: &Grant, other: &Grant| one.environment == other.environment;
        self.grants.chunk_by(same).filter_map(|grants| Some((grants.first()?.environment, grants)))
    }

    pub fn grants_in(&self, environment: u32) -> &[Grant<'h>] {
        let start = self.grants.partition_point(|grant| grant.environment < environment);
        let end = self.grants.partition_point(|grant| grant.environment <= environment);
        &self.grants[start..end]
    }

    pub fn name(&self, environment: u32) -> String {
        name(self.history, environment)
    }

    fn learn(&mut self, record: &'h Record) {
        let (Answer::Granted { session, fencing }, Some(environment)) = (&record.answer, record.environment) else {
            return;
        };
        match self.by_session.entry(session) {
            Entry::Vacant(vacant) => {
                vacant.insert(self.grants.len());
                self.grants.push(Grant {
                    record,
                    session,
                    environment,
                    token: *fencing,
                    earliest: record.sent,
                    held_until: record.ended,
                    release: None,
                    released: None,
                });
            }
            // An idempotency key gets the same answer again.
            Entry::Occupied(known) => {
                let known = &mut self.grants[*known.get()];
                if (known.environment, known.token) != (environment, *fencing) {
                    self.contradictions.push((known.record, record));
                    return;
                }
                known.earliest = known.earliest.min(record.sent);
                if record.ended < known.record.ended {
                    known.record = record;
                }
            }
        }
    }

    fn learn_releases(&mut self) {
        for record in &self.history.records {
            let Request::Release { session } = &record.request else { continue };
            let Some(&place) = self.by_session.get(session) else { continue };
            let grant = &mut self.grants[place];
            if grant.release.is_none_or(|first| record.sent < first.sent) {
                grant.release = Some(record);
            }
            if record.answer == Answer::Done && grant.released.is_none_or(|first| record.ended < first.ended) {
                grant.released = Some(record);
            }
        }
    }
}

impl Grant<'_> {
    pub fn told(&self) -> Moment {
        self.record.ended
    }

    /// Whether there is any time at which it certainly had the lock.
    pub fn is_held(&self) -> bool {
        self.held_until > self.told()
    }

    pub fn by_force(&self) -> bool {
        self.record.request == Request::ForceClaim
    }

    pub fn ttl(&self) -> Option<Duration> {
        if let Request::Claim { ttl, .. } = self.record.request { ttl } else { None }
    }
}

pub fn name(history: &History, environment: u32) -> String {
    let known = usize::try_from(environment).ok().and_then(|number| history.environments.get(number));
    known.cloned().unwrap_or_else(|| format!("environment {environment}"))
}
