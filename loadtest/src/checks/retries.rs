//! Owns when a grant may have taken place at the earliest. A claim that is sent again with its idempotency key gets the
//! answer of the first time, so its grant may be older than the request that told it.

use std::collections::HashMap;

use super::evidence::Grant;
use super::unanswered_claims::UnansweredClaims;
use crate::history::{Moment, Record, Request};

/// What a client sends again when it gets no answer.
#[derive(PartialEq, Eq, Hash)]
enum Target {
    Any,
    Named(Option<u32>),
    Force(Option<u32>),
}

/// When it was sent, and the place of its grant if it was told of one.
type Try = (Moment, Option<usize>);

/// The history does not say which requests had a key. So a grant may be the answer to any of the same client's claims
/// for the same thing that got none, back to the grant before: a client does one thing after the other.
pub fn set_back(grants: &mut [Grant<'_>], unanswered: &UnansweredClaims<'_>) {
    let mut tries: HashMap<(u32, Target), Vec<Try>> = HashMap::new();
    for record in unanswered.all() {
        tries.entry((record.client, target(record))).or_default().push((record.sent, None));
    }
    for (place, grant) in grants.iter().enumerate() {
        if let Some(tries) = tries.get_mut(&(grant.record.client, target(grant.record))) {
            tries.push((grant.record.sent, Some(place)));
        }
    }
    for mut tries in tries.into_values() {
        tries.sort_unstable();
        let mut first_unanswered = None;
        for (sent, granted) in tries {
            match granted {
                None => _ = first_unanswered.get_or_insert(sent),
                Some(place) => {
                    let grant = &mut grants[place];
                    grant.earliest = first_unanswered.take().map_or(grant.earliest, |first| grant.earliest.min(first));
                }
            }
        }
    }
}

fn target(record: &Record) -> Target {
    if matches!(record.request, Request::Claim { any: true, .. }) {
        Target::Any
    } else if record.request == Request::ForceClaim {
        Target::Force(record.environment)
    } else {
        Target::Named(record.environment)
    }
}
