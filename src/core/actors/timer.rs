//! The timer: signals environments whose deadline has passed, and drops old sessions that ended in a queue.
//!
//! A TTL that passes: the actor armed a deadline for it (`actor/reporting.rs`), `signal_due` sends `Signal::Due`, and the
//! actor decides `Elapse` (`actor/signals.rs`, `domain`).

use std::sync::Arc;
use std::time::Duration;

use super::directory::Directory;
use super::keys;
use super::services::Services;
use super::services::signals::Signal;
use crate::backoff::{Backoff, Retries};
use crate::store::{Batch, StoreError, durable_up_to};

/// How many environments are signalled at once when their deadline has passed; the rest follow immediately.
const DUE_AT_ONCE: usize = 256;
/// The pauses before an environment is looked at again that could not be signalled: the store cannot be read.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(20));
/// How many sessions that ended in a queue are kept.
const ENDED_KEPT: usize = 10_000;
/// How many records one commit drops.
const DROPPED_AT_ONCE: usize = 512;

/// Signals each environment when its deadline passes, for ever.
pub async fn run(directory: &Directory) {
    let services = &directory.services;
    let mut retries = retries();
    loop {
        services.deadlines.next(|| services.tick()).await;
        signal_due(directory, &mut retries);
    }
}

pub fn retries() -> Retries {
    Retries::new(BACKOFF)
}

/// Signals every environment whose deadline has passed.
pub fn signal_due(directory: &Directory, retries: &mut Retries) {
    let services = &directory.services;
    loop {
        let due = services.deadlines.take_due(services.tick(), DUE_AT_ONCE);
        let more = due.len() == DUE_AT_ONCE;
        for key in due {
            if services.signal(&key, Signal::Due) {
                retries.worked();
                continue;
            }
            // If the store cannot tell at the moment, it may exist.
            let exists = directory.environment(&key).map_or(true, |environment| environment.is_some());
            let pause = exists.then(|| retries.failed());
            services.deadlines.arm(&key, pause.map(|pause| services.tick().after(pause)));
        }
        if !more {
            return;
        }
    }
}

/// Drops the oldest sessions that ended in a queue, beyond those that are kept.
pub async fn drop_old_ended_sessions(services: &Arc<Services>) -> Result<(), StoreError> {
    if !services.waiters.take_ended() {
        return Ok(());
    }
    let reader = services.clone();
    let read = tokio::task::spawn_blocking(move || {
        let mut all = Vec::new();
        reader.records.each(keys::LEFT, |key, _| {
            all.push(key.to_vec());
            Ok(())
        })?;
        Ok::<_, StoreError>(all)
    });
    let all = read.await.map_err(|error| StoreError::Read(error.to_string()))??;
    let surplus = all.len().saturating_sub(ENDED_KEPT);
    for keys in all[..surplus].chunks(DROPPED_AT_ONCE) {
        let mut batch = Batch::default();
        keys.iter().for_each(|key| batch.delete(key.clone()));
        durable_up_to(services.store(), services.store().commit(batch)?).await;
    }
    Ok(())
}
