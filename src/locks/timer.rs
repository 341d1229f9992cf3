//! The timer: signals environments whose deadline has passed, and drops old sessions that ended in a queue.
//!
//! When a TTL passes: the actor has set a deadline for it (`actor/mod.rs`), `signal_due` sends `Signal::Due`, and the
//! actor decides `Elapse` (`actor/signals.rs`, `domain`).

use std::collections::HashMap;
use std::sync::Arc;

use super::directory::Directory;
use super::keys;
use super::services::Services;
use super::services::signals::Signal;
use domain::Identifier;
use shares::level;
use store::{Batch, StoreError, durable_up_to};

/// Environments with a passed deadline that are signalled per round; the next round follows immediately.
const DUE_AT_ONCE: usize = 256;
/// The number of kept sessions that ended in a queue, of all organizations together.
const ENDED_KEPT: usize = 10_000;
/// Records dropped per commit.
const DROPPED_AT_ONCE: usize = 512;

/// Signals each environment when its deadline passes; never returns.
pub async fn run(directory: &Directory) {
    let services = &directory.services;
    loop {
        services.deadlines.next(|| services.tick()).await;
        signal_due(directory);
    }
}

/// Signals every environment whose deadline has passed.
pub fn signal_due(directory: &Directory) {
    let services = &directory.services;
    loop {
        let due = services.deadlines.take_due(services.tick(), DUE_AT_ONCE);
        let more = due.len() == DUE_AT_ONCE;
        for key in due {
            if services.signal(&key, Signal::Due) {
                continue;
            }
            // If the store cannot be read now, assume that the environment exists.
            let exists = directory.environment(&key).map_or(true, |environment| environment.is_some());
            if exists {
                services.deadlines.arm_again(&key, services.tick());
            } else {
                services.deadlines.loaded(&key);
            }
        }
        if !more {
            return;
        }
    }
}

/// Drops the oldest sessions that ended in a queue, beyond the limit. Organizations with few such sessions keep all of
/// them.
pub async fn drop_old_ended_sessions(services: &Arc<Services>) -> Result<(), StoreError> {
    if !services.waiters.take_ended() {
        return Ok(());
    }
    let reader = services.clone();
    let read = tokio::task::spawn_blocking(move || {
        let mut all = Vec::new();
        reader.records.each(keys::LEFT, |key, record| {
            // An unreadable record has no owner, and is dropped like the others.
            let organization = records::decode_left(record).ok().map(|(pipeline, ..)| pipeline.organization);
            all.push((organization, key.to_vec()));
            Ok(())
        })?;
        Ok::<_, StoreError>(surplus(all, ENDED_KEPT))
    });
    let surplus = read.await.map_err(|error| StoreError::Read(error.to_string()))??;
    for keys in surplus.chunks(DROPPED_AT_ONCE) {
        let mut batch = Batch::default();
        keys.iter().for_each(|key| batch.delete(key.clone()));
        durable_up_to(services.store(), services.store().commit(batch)?).await;
    }
    Ok(())
}

/// The keys to drop so that `kept` are left. `all` is sorted oldest first.
fn surplus(all: Vec<(Option<Identifier>, Vec<u8>)>, kept: usize) -> Vec<Vec<u8>> {
    let mut left: HashMap<Option<Identifier>, u64> = HashMap::new();
    for (organization, _) in &all {
        *left.entry(organization.clone()).or_default() += 1;
    }
    let level = level(kept as u64, left.values().copied().collect());
    let mut surplus = Vec::new();
    for (organization, key) in all {
        let own = left.entry(organization).or_default();
        if *own > level {
            *own -= 1;
            surplus.push(key);
        }
    }
    surplus
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::samples;

    #[test]
    fn an_organization_whose_queues_are_left_all_the_time_drops_only_its_own_sessions() {
        let [acme, other] = ["acme", "other"].map(|name| Some(samples::identifier(name)));
        let of_other = (0..3_u8).map(|number| (other.clone(), vec![number]));
        let all: Vec<_> = of_other.chain((3..20).map(|number| (acme.clone(), vec![number]))).collect();
        assert_eq!(surplus(all.clone(), 10), (3..13).map(|number| vec![number]).collect::<Vec<_>>());
        assert_eq!(surplus(all, 20), Vec::<Vec<u8>>::new());
    }
}
