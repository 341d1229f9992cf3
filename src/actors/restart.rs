//! What a start finds in the store: waiters, deadlines and unfinished deployments of the last run.
//!
//! A queued waiter on a restart: `find_waiters` takes over its place and arms a deadline; when the environment is next
//! needed its actor loads the queue (`state/records.rs`); a waiter whose client gives no sign of life in time is removed
//! by `Elapse` (`domain`), and one whose client was never told its session's id at once.

use futures_util::{StreamExt, TryStreamExt, stream};

use super::directory::Directory;
use super::failure::Failure;
use super::pool::Pools;
use super::services::Services;
use super::services::signals::Signal;
use super::services::waiters::QueueKey;
use super::state::records::readable;
use super::{keys, stored};
use crate::domain::{ASK_WITHIN_MILLIS, EnvironmentKey, Recover};
use crate::store::{StoreError, durable_up_to};

/// How many environments are recovered together: enough that they share the disk's work.
const RECOVERED_AT_ONCE: usize = 64;

/// Takes over the waiters of the last run, with time for their clients to come back.
pub fn find_waiters(services: &Services, pools: &Pools) -> Result<(), StoreError> {
    let records = &services.records;
    let started = records.run.started.tick;
    records.each(keys::WAITERS, |key, record| {
        let (waiter, _) = readable(stored::decode_waiter(record))?;
        if let Some(key) = keys::parse_environment(key, keys::WAITERS) {
            records.queue_unloaded(&key);
            let due = if waiter.is_findable() { started.plus(ASK_WITHIN_MILLIS) } else { started };
            services.deadlines.arm_no_later(&key, due);
            services.waiters.restore(&waiter, QueueKey::Environment(key));
        }
        Ok(())
    })?;
    records.each(keys::OUTSIDERS, |key, record| {
        let (waiter, labels) = readable(stored::decode_waiter(record))?;
        if let Some(pipeline) = keys::parse_pipeline(key, keys::OUTSIDERS) {
            services.waiters.restore(&waiter, QueueKey::Pool(pipeline.clone()));
            pools.get(&pipeline).restore(waiter, labels.unwrap_or_default());
        }
        Ok(())
    })
}

/// Arms the deadlines of locks that run out by themselves.
pub fn find_deadlines(services: &Services) -> Result<(), StoreError> {
    let records = &services.records;
    records.each(keys::WAKES, |key, record| {
        let left = readable(stored::decode_wake(record, records.run))?;
        if let Some(key) = keys::parse_environment(key, keys::WAKES) {
            services.deadlines.arm_no_later(&key, records.run.started.tick.plus(left));
        }
        Ok(())
    })
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
        // A server that starts on a full disk still serves reads, and starts what waits when it can.
        Err(Failure::Store(error @ (StoreError::Full { .. } | StoreError::Overloaded))) => {
            tracing::warn!(environment = %key, %error, "a waiting deployment cannot be started yet");
            directory.services.signal(&key, Signal::Resume);
            Ok(())
        }
        recovered => recovered,
    }
}
