//! Owns what a client does next: a bit of everything that the specification knows, mostly about the newest sessions.

use crate::linearizability::history::{Claim, Moment, Request, Session};
use crate::linearizability::random::Random;

/// Few enough that some are used again.
const KEYS: u64 = 12;
/// Those of force-claims are others than those of claims.
const FORCE_CLAIM_KEYS: u32 = 100;

/// `newest`: sessions that the client may know of. `unit`: what leases and waits are counted in.
pub fn next(random: &mut Random, newest: &[Session], unit: Moment) -> Request {
    let ttl = random.percent(40).then(|| random.within(1..3) * unit);
    let key = random.percent(20).then(|| random.below(KEYS) as u32);
    // A retry has to ask for the same, so the key decides.
    let ttl = key.map_or(ttl, |key| (key % 2 == 1).then_some(unit));
    let priority = i8::from(random.percent(20));
    match (random.below(100), random.one_of(newest)) {
        (0..=19, _) => Request::Claim(Claim { ttl, key, ..Claim::default() }),
        (20..=33, _) => {
            let (wait, queues) = (random.within(1..3) * unit, random.percent(15));
            // Of these many are never told, so that their locks have to end by themselves.
            Request::Claim(Claim { wait, queues, ttl: Some(random.within(1..3) * unit), priority, key: None })
        }
        (34..=42, _) => Request::Claim(Claim { queues: true, ttl, priority, ..Claim::default() }),
        (43..=48, _) => Request::ForceClaim { ttl, key: key.map(|key| key + FORCE_CLAIM_KEYS) },
        (49..=70, Some(session)) => Request::Release(session),
        (71..=77, Some(session)) => Request::Heartbeat(session),
        (78..=86, Some(session)) => Request::ReadSession(session),
        (87..=91, _) => Request::ReadQueue,
        (_, _) => Request::ReadEnvironment,
    }
}
