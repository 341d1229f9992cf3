//! What the tests of the domain are made of.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::*;

pub fn person(number: u8) -> Person {
    Person { id: UserId(IdSeed([number; 12])), name: Arc::from(format!("person-{number}")) }
}

/// The same number makes the same seed, and [`number`] reads it back.
pub fn seed(number: u64) -> IdSeed {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    IdSeed(bytes)
}

pub fn number(seed: IdSeed) -> u64 {
    u64::from_be_bytes(seed.0[4..].try_into().unwrap())
}

pub fn commit() -> CommitId {
    CommitId::parse("c0ffee1").unwrap()
}

pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (Identifier::parse(key).unwrap(), LabelValue::parse(value).unwrap())).collect()
}

/// A plain claim that does not wait; its seed and its ticket have this number.
pub fn claim(number: u64) -> Claim {
    Claim {
        seed: seed(number),
        user: person(1),
        commit: None,
        context: None,
        plan: Plan::Nothing,
        ttl_seconds: None,
        priority: Priority::default(),
        ticket: Ticket(number),
        waits: None,
    }
}

pub fn by_key(number: u64) -> Kept {
    Kept::ByKey(PlaceKey { record: Arc::from(number.to_be_bytes()), fingerprint: [0; 16] })
}

/// So many milliseconds after everything began, on both clocks.
pub fn at(millis: i64) -> Now {
    Now { at: Timestamp::from_millis(1_000_000 + millis), tick: Tick(millis) }
}

/// Everybody is there, except those who are said not to be; nobody waits for any environment.
#[derive(Default)]
pub struct Present {
    pub except: Vec<(Ticket, Presence)>,
    seeds: u64,
}

impl Crowd for Present {
    fn presence(&self, waiter: &Waiter) -> Presence {
        let exception = self.except.iter().find(|(ticket, _)| *ticket == waiter.ticket);
        exception.map_or(Presence::Connected, |(_, presence)| *presence)
    }

    fn take_outsider(&mut self, _: &Configuration, _: Option<Turn>) -> Option<Arc<Waiter>> {
        None
    }

    fn seed(&mut self) -> IdSeed {
        self.seeds += 1;
        seed(u64::MAX - self.seeds)
    }
}

/// A new environment, and what happens to it.
pub struct Subject {
    pub environment: Environment,
    pub crowd: Present,
}

impl Subject {
    pub fn with(configuration: Configuration) -> Self {
        let mut subject = Self { environment: Environment::absent(), crowd: Present::default() };
        subject.run(0, Configure { configuration, expected: None }).unwrap();
        subject
    }

    /// Decides at that moment, and keeps what came of it.
    pub fn run<C: Command>(&mut self, millis: i64, command: C) -> Result<(C::Reply, Outcome), Rejection> {
        let transition = decide(&self.environment, command, at(millis), &mut self.crowd)?;
        self.environment = transition.next;
        Ok((transition.reply, transition.outcome))
    }

    /// Which claim has the lock.
    pub fn holder(&self) -> Option<u64> {
        self.environment.lock.as_ref().map(|session| number(session.id.seed))
    }

    pub fn queue(&self) -> Vec<u64> {
        self.environment.queue.iter().map(|waiter| waiter.ticket.0).collect()
    }
}
