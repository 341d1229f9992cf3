//! Restores the state that the last run left in the store: waiters, deadlines and unfinished deployments.
//!
//! A queued waiter across a restart: `find_waiters` restores its place and sets a deadline. When the environment is
//! next needed, its actor loads the queue (`state/records.rs`). `Elapse` (`domain`) removes a waiter whose client does
//! not poll in time. A waiter whose client never received its session's id is ended here, immediately.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::directory::Directory;
use super::keys;
use super::pool::Pools;
use super::ports::Failure;
use super::services::Services;
use super::services::signals::Signal;
use super::services::waiters::QueueKey;
use super::state::change::record_events;
use super::state::records::readable;
use domain::{ASK_WITHIN_MILLIS, EnvironmentKey, Expiry, Labels, Recover, Waiter};
use store::{Batch, Store, StoreError, durable_up_to, end_of_prefix};

/// Environments recovered together: enough to share disk syncs.
const RECOVERED_AT_ONCE: usize = 64;
/// Waiters ended in one batch. Limits the size of the batch.
const ENDED_AT_ONCE: usize = 50;

/// Restores the waiters of the last run, with time for their clients to return. Waiters whose client cannot return end
/// before they become visible.
pub fn find_waiters(services: &Services, pools: &Pools) -> Result<(), StoreError> {
    let records = &services.records;
    let mut lost = Vec::new();
    let mut found = |queue, (waiter, labels)| {
        let found = StoredWaiter { queue, waiter, labels };
        services.waiters.restore(&found.waiter, found.queue.clone());
        match found.waiter.is_findable() {
            true => found.take_over(services, pools),
            false => lost.push(found),
        }
    };
    records.each(keys::WAITERS, |key, record| {
        let decoded = readable(records::decode_waiter(record))?;
        if let Some(key) = keys::parse_environment(key, keys::WAITERS) {
            found(QueueKey::Environment(key), decoded);
        }
        Ok(())
    })?;
    records.each(keys::POOL_WAITERS, |key, record| {
        let decoded = readable(records::decode_waiter(record))?;
        if let Some(pipeline) = keys::parse_pipeline(key, keys::POOL_WAITERS) {
            found(QueueKey::Pool(pipeline), decoded);
        }
        Ok(())
    })?;
    while !lost.is_empty() {
        let some = lost.split_off(lost.len().saturating_sub(ENDED_AT_ONCE));
        if let Err(error) = end_lost(services, &some) {
            tracing::warn!(%error, "the store refused to end claims that nobody waits for any more; trying again soon");
            some.into_iter().for_each(|found| found.take_over(services, pools));
        }
    }
    Ok(())
}

/// A waiter that the last run left in the store.
struct StoredWaiter {
    queue: QueueKey,
    waiter: Waiter,
    /// The wanted labels of a waiter for any environment.
    labels: Option<Labels>,
}

impl StoredWaiter {
    fn take_over(self, services: &Services, pools: &Pools) {
        match self.queue {
            QueueKey::Environment(key) => {
                let started = services.records.run.started.tick;
                let due = if self.waiter.is_findable() { started.plus(ASK_WITHIN_MILLIS) } else { started };
                services.records.queue_unloaded(&key);
                services.deadlines.arm_no_later(&key, due);
            }
            QueueKey::Pool(pipeline) => pools.get(&pipeline).restore(self.waiter, self.labels.unwrap_or_default()),
        }
    }
}

fn end_lost(services: &Services, lost: &[StoredWaiter]) -> Result<(), StoreError> {
    let now = services.now();
    let mut batch = Batch::default();
    batch.mark_as_end();
    for StoredWaiter { queue, waiter, .. } in lost {
        let (record, pipeline, name) = match queue {
            QueueKey::Environment(key) => (keys::waiter(key, waiter.ticket), &key.pipeline, Some(&key.name)),
            QueueKey::Pool(pipeline) => (keys::pool_waiter(pipeline, waiter.ticket), pipeline, None),
        };
        let departure = Arc::new(waiter.clone()).expired(Expiry::Vanished, now);
        batch.delete(record);
        batch.put(keys::left(waiter.ticket), records::encode_left(pipeline, name, &departure.session));
        record_events(&mut batch, pipeline, name, departure.event().as_slice(), None, now.at);
    }
    services.store().commit(batch)?;
    lost.iter().for_each(|found| services.waiters.forget(&found.waiter));
    services.waiters.sessions_ended(lost.len());
    Ok(())
}

/// Sets the deadlines of locks that expire automatically.
pub fn find_deadlines(services: &Services) -> Result<(), StoreError> {
    let records = &services.records;
    records.each(keys::WAKES, |key, record| {
        let left = readable(records::decode_wake(record, records.run))?;
        if let Some(key) = keys::parse_environment(key, keys::WAKES) {
            services.deadlines.arm_no_later(&key, records.run.started.tick.plus(left));
        }
        Ok(())
    })
}

/// Whether the last run left an unfinished deployment.
pub fn has_unfinished(store: &dyn Store) -> Result<bool, StoreError> {
    let found = store.scan(keys::UNFINISHED, &end_of_prefix(keys::UNFINISHED), 1)?;
    Ok(!found.is_empty())
}

/// Continues the deployments that the last run had begun or left waiting. Returns the number of environments.
pub async fn recover_deployments(directory: &Directory) -> Result<usize, Failure> {
    let services = &directory.services;
    durable_up_to(services.store(), services.store().handed_in()).await;
    let mut unfinished = Vec::new();
    services.records.each(keys::UNFINISHED, |key, _| {
        unfinished.extend(keys::parse_environment(key, keys::UNFINISHED));
        Ok(())
    })?;
    let found = unfinished.len();
    let recover = unfinished.into_iter().map(|key| recover_environment(directory, key));
    stream::iter(recover).buffer_unordered(RECOVERED_AT_ONCE).try_collect::<()>().await?;
    services.pipelines.set_recovered();
    Ok(found)
}

async fn recover_environment(directory: &Directory, key: EnvironmentKey) -> Result<(), Failure> {
    match directory.ask(&key, Recover, None, None).await {
        // A server that starts on a full disk still serves reads, and starts waiting deployments when it can.
        Err(Failure::Store(error)) if error.is_lack_of_room() => {
            tracing::warn!(environment = %key, %error, "a waiting deployment cannot be started yet");
            directory.services.signal(&key, Signal::Resume);
            Ok(())
        }
        recovered => recovered,
    }
}
