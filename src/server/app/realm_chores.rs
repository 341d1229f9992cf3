//! Periodic work of a realm: sweeping expired records, sealing events, ending sessions on time, and removing logs of
//! dropped deployments from the store of logs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinHandle;

use crate::config::Settings;
use crate::http::Realm;
use ambient::backoff::{Backoff, Retries};
use delivery::archive::{Archive, ObjectError};
use domain::DroppedLog;
use events::{Retention, Sealer, Sweeper};
use locks::DroppedEntry;
use store::StoreError;

/// How often the last uses of tokens are written.
const USAGE_WRITTEN_EVERY: Duration = Duration::from_secs(60);
/// How often expired idempotency keys are dropped.
const KEYS_SWEPT_EVERY: Duration = Duration::from_secs(60);
/// The pause between two sweeps while there are too many keys: each sweep may count a million.
const SURPLUS_KEYS_SWEPT_EVERY: Duration = Duration::from_secs(5);
/// The pauses while sweeps fail.
pub const SWEEP_BACKOFF: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(300));
/// How often expired sign-ins, invitations and job tokens are dropped; they are refused as soon as they expire.
const SIGN_INS_SWEPT_EVERY: Duration = Duration::from_secs(600);
/// How often old and surplus events are dropped.
const EVENTS_SWEPT_EVERY: Duration = Duration::from_secs(60);
/// If the server is killed, the events of this time are not sealed yet; the next start seals them.
const EVENTS_SEALED_EVERY: Duration = Duration::from_secs(1);
const SEAL_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// How often obsolete logs and working directories are removed.
pub const FILES_SWEPT_EVERY: Duration = Duration::from_secs(60);
/// Entries per read.
const READ_AT_ONCE: usize = 100;
/// After this many consecutive failures the store of logs gets a pause; the next round continues with the next entry.
const FAILURES_MAX: usize = 4;
/// Bound on the remembered entries that have been logged; further ones are skipped silently.
const LOGGED_MAX: usize = 100;

/// Starts the chores of a realm; they run until they are aborted.
pub fn begin(realm: &Arc<Realm>, settings: &Settings, archive: &Archive) -> Vec<JoinHandle<()>> {
    vec![
        chore(sweep_keys(realm.clone())),
        chore(write_usage(realm.clone())),
        chore(sweep_sign_ins(realm.clone())),
        chore(sweep_events(realm.clone(), retention(settings))),
        chore(seal_events(realm.clone())),
        chore(keep_time(realm.clone())),
        chore(remove_dropped_logs(realm.clone(), archive.clone())),
    ]
}

pub fn chore(work: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    actix_web::rt::spawn(work.boxed_local())
}

/// Does the work at this interval.
pub async fn every(interval: Duration, mut work: impl FnMut()) {
    let mut rounds = tokio::time::interval(interval);
    loop {
        rounds.tick().await;
        work();
    }
}

/// Repeats the work with this pause, and longer ones while it fails.
async fn repeat(pause: Duration, mut work: impl AsyncFnMut() -> bool) {
    let mut retries = Retries::new(SWEEP_BACKOFF);
    loop {
        let worked = work().await;
        tokio::time::sleep(pause_after(worked, &mut retries, pause)).await;
    }
}

pub fn pause_after(worked: bool, retries: &mut Retries, pause: Duration) -> Duration {
    if worked {
        retries.worked();
        return pause;
    }
    retries.failed()
}

async fn write_usage(realm: Arc<Realm>) {
    let work = async || {
        let written = realm.accounts.write_usage().await;
        let failed = |error: &_| tracing::warn!(%error, "cannot write when tokens were last used; trying again");
        written.inspect_err(failed).is_ok()
    };
    tokio::time::sleep(USAGE_WRITTEN_EVERY).await;
    repeat(USAGE_WRITTEN_EVERY, work).await;
}

/// Ends sessions when they expire, and resumes pools whose waiters are from before the start.
async fn keep_time(realm: Arc<Realm>) {
    if let Err(error) = realm.environments.resume_pools().await {
        tracing::error!(%error, "cannot serve the waiters for any environment");
    }
    realm.environments.keep_time().await;
}

/// A separate task, since a million keys take a while.
async fn sweep_keys(realm: Arc<Realm>) {
    let mut rounds = tokio::time::interval(KEYS_SWEPT_EVERY);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut retries = Retries::new(SWEEP_BACKOFF);
    loop {
        tokio::select! {
            _ = rounds.tick() => {}
            () = realm.idempotency.too_many() => {}
        }
        let swept = realm.idempotency.sweep().await;
        if let Err(error) = &swept {
            tracing::warn!(%error, "cannot sweep old idempotency keys; the next sweep tries again");
        }
        let dropped = realm.environments.drop_old_ended_sessions().await;
        if let Err(error) = &dropped {
            tracing::warn!(%error, "cannot drop sessions that ended in a queue");
        }
        let worked = swept.is_ok() && dropped.is_ok();
        tokio::time::sleep(pause_after(worked, &mut retries, SURPLUS_KEYS_SWEPT_EVERY)).await;
    }
}

/// Drops sign-ins, invitations and tokens that have expired.
async fn sweep_sign_ins(realm: Arc<Realm>) {
    let sweep = async || {
        let (accounts, now) = (&realm.accounts, (realm.clock)());
        let (sign_ins, invitations) = (accounts.sweep_sign_ins(now).await?, accounts.sweep_invitations(now).await?);
        let (tokens, of_jobs) = (accounts.sweep_tokens(now).await?, accounts.sweep_exchanged(now).await?);
        if (sign_ins, invitations, tokens, of_jobs) != (0, 0, 0, 0) {
            tracing::info!(sign_ins, invitations, tokens, of_jobs, "dropped what had expired");
        }
        Ok(())
    };
    let failed =
        |error: &StoreError| tracing::warn!(%error, "cannot drop expired sign-ins; the next sweep tries again");
    repeat(SIGN_INS_SWEPT_EVERY, async || sweep().await.inspect_err(failed).is_ok()).await;
}

/// A separate task, because sweeping may take a while.
async fn sweep_events(realm: Arc<Realm>, retention: Retention) {
    let mut sweeper = Sweeper::new(realm.events.clone(), retention);
    let work = async || match sweeper.sweep((realm.clock)(), |organization| realm.webhooks.floor(organization)).await {
        Ok(dropped) => {
            if dropped > 0 {
                tracing::info!(dropped, "dropped old or surplus events");
            }
            true
        }
        Err(error) => {
            tracing::warn!(%error, "cannot drop old events; the next sweep tries again");
            false
        }
    };
    repeat(EVENTS_SWEPT_EVERY, work).await;
}

/// Seals new events, at most once per interval.
async fn seal_events(realm: Arc<Realm>) {
    let Some(mut sealer) = Sealer::new(realm.events.clone()) else { return };
    let (mut durable, mut retries) = (realm.events.durable(), Retries::new(SEAL_BACKOFF));
    loop {
        let sealed = sealer.seal().await;
        let pause = pause_after(sealed.is_ok(), &mut retries, EVENTS_SEALED_EVERY);
        if let Err(error) = &sealed
            && retries.is_first()
        {
            tracing::warn!(%error, "cannot seal new events; trying again until it works");
        }
        if durable.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

/// Removes logs of dropped deployments from the store of logs.
async fn remove_dropped_logs(realm: Arc<Realm>, archive: Archive) {
    let mut removal = DroppedLogRemoval::default();
    repeat(FILES_SWEPT_EVERY, async || removal.round(&(&*realm, &archive)).await).await;
}

fn retention(settings: &Settings) -> Retention {
    Retention {
        max_events: settings.events.max_events,
        max_age: settings.events.max_age,
        max_security_events: settings.events.max_security_events,
        security_max_age: settings.events.max_security_age,
    }
}

/// The dropped logs of a realm, and the store of logs.
trait DroppedLogs {
    fn entries(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<DroppedEntry>, StoreError>;
    /// False if there is no store.
    async fn remove(&self, log: &DroppedLog) -> Result<bool, ObjectError>;
    async fn forget(&self, log: &DroppedLog) -> Result<(), StoreError>;
}

impl DroppedLogs for (&Realm, &Archive) {
    fn entries(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<DroppedEntry>, StoreError> {
        self.0.environments.dropped_logs(after, limit)
    }

    async fn remove(&self, log: &DroppedLog) -> Result<bool, ObjectError> {
        self.1.remove(log).await
    }

    async fn forget(&self, log: &DroppedLog) -> Result<(), StoreError> {
        self.0.environments.log_is_removed(log).await
    }
}

#[derive(Default)]
struct DroppedLogRemoval {
    /// The key after which the next round begins.
    after: Option<Vec<u8>>,
    /// Whether a failure has been logged since the last full round that worked.
    fails: bool,
    /// The keys of unreadable entries that have been logged.
    logged: BTreeSet<Vec<u8>>,
}

impl DroppedLogRemoval {
    /// Tries each entry once, unless the store fails. Returns whether there was no failure.
    async fn round(&mut self, of: &impl DroppedLogs) -> bool {
        let is_whole = self.after.is_none();
        let failure = self.remove_all(of).await;
        let worked = failure.is_none();
        match failure {
            None if is_whole => self.fails = false,
            Some(error) if !self.fails => {
                self.fails = true;
                tracing::warn!(error, "cannot remove old logs from the store of logs; trying again until it works");
            }
            None | Some(_) => {}
        }
        worked
    }

    /// Returns the first failure.
    async fn remove_all(&mut self, of: &impl DroppedLogs) -> Option<String> {
        let (mut first_failure, mut failures) = (None, 0);
        loop {
            let entries = match of.entries(self.after.as_deref(), READ_AT_ONCE) {
                Ok(entries) => entries,
                Err(error) => return Some(error.to_string()),
            };
            let are_last = entries.len() < READ_AT_ONCE;
            for DroppedEntry { key, log } in entries {
                let removed = match log {
                    Ok(log) => remove(&log, of).await,
                    Err(error) => {
                        self.log_unreadable(&key, &error);
                        Ok(true)
                    }
                };
                self.after = Some(key);
                match removed {
                    Ok(true) => failures = 0,
                    Ok(false) => {
                        self.after = None;
                        return first_failure;
                    }
                    Err(error) => {
                        failures += 1;
                        first_failure.get_or_insert(error);
                    }
                }
                if failures == FAILURES_MAX {
                    return first_failure;
                }
            }
            if are_last {
                self.after = None;
                return first_failure;
            }
        }
    }

    fn log_unreadable(&mut self, key: &[u8], error: &StoreError) {
        if self.logged.len() < LOGGED_MAX && self.logged.insert(key.to_vec()) {
            let key = key.escape_ascii();
            tracing::warn!(%key, %error, "the entry of a dropped log cannot be read; its log stays in the store of logs");
        }
    }
}

/// False if there is no store.
async fn remove(log: &DroppedLog, of: &impl DroppedLogs) -> Result<bool, String> {
    let is_removed = of.remove(log).await.map_err(|error| error.to_string())?;
    if is_removed {
        of.forget(log).await.map_err(|error| error.to_string())?;
    }
    Ok(is_removed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::{Cell, RefCell};

    use super::*;
    use domain::{DeploymentId, IdSeed, Identifier};

    /// Entries, identified by the first byte of their keys.
    #[derive(Default)]
    struct Fake {
        entries: RefCell<BTreeSet<u8>>,
        unreadable: BTreeSet<u8>,
        not_removable: BTreeSet<u8>,
        is_down: Cell<bool>,
        asked: Cell<usize>,
    }

    impl Fake {
        fn left(&self) -> Vec<u8> {
            self.entries.borrow().iter().copied().collect()
        }
    }

    impl DroppedLogs for Fake {
        fn entries(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<DroppedEntry>, StoreError> {
            let entry = |number: &u8| {
                let organization = Identifier::parse("acme").unwrap();
                let log =
                    DroppedLog { organization, deployment: DeploymentId(IdSeed([*number; 12])), parts: Vec::new() };
                let unreadable = || StoreError::Read("bad".to_owned());
                let log = (!self.unreadable.contains(number)).then_some(log).ok_or_else(unreadable);
                DroppedEntry { key: vec![*number], log }
            };
            let entries = self.entries.borrow();
            let after = entries.iter().filter(|number| after.is_none_or(|after| **number > after[0]));
            Ok(after.take(limit).map(entry).collect())
        }

        async fn remove(&self, log: &DroppedLog) -> Result<bool, ObjectError> {
            self.asked.set(self.asked.get() + 1);
            let fails = self.is_down.get() || self.not_removable.contains(&log.deployment.0.0[0]);
            if fails { Err(ObjectError::passing("down")) } else { Ok(true) }
        }

        async fn forget(&self, log: &DroppedLog) -> Result<(), StoreError> {
            self.entries.borrow_mut().remove(&log.deployment.0.0[0]);
            Ok(())
        }
    }

    #[tokio::test]
    async fn entries_that_cannot_be_read_or_removed_hold_up_no_others() {
        let (unreadable, not_removable) = ((0..120).collect(), BTreeSet::from([130, 150]));
        let fake = Fake { entries: RefCell::new((0..250).collect()), unreadable, not_removable, ..Fake::default() };
        let mut removal = DroppedLogRemoval::default();
        for _ in 0..2 {
            removal.round(&fake).await;
            assert_eq!(fake.left(), (0..120).chain([130, 150]).collect::<Vec<_>>());
        }
        assert_eq!(removal.logged.len(), LOGGED_MAX, "each is named once, up to a bound");
    }

    #[tokio::test]
    async fn many_that_cannot_be_removed_hold_up_others_for_some_rounds_only() {
        let fake =
            Fake { entries: RefCell::new((0..30).collect()), not_removable: (0..20).collect(), ..Fake::default() };
        let mut removal = DroppedLogRemoval::default();
        for _ in 0..6 {
            removal.round(&fake).await;
        }
        assert_eq!(fake.left(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_store_that_is_down_is_asked_for_few_and_later_for_all() {
        let fake = Fake { entries: RefCell::new((0..200).collect()), ..Fake::default() };
        fake.is_down.set(true);
        let mut removal = DroppedLogRemoval::default();
        removal.round(&fake).await;
        assert_eq!((fake.asked.get(), removal.fails), (FAILURES_MAX, true));
        fake.is_down.set(false);
        removal.round(&fake).await;
        assert_eq!(fake.left(), [0, 1, 2, 3], "it goes on with the next");
        removal.round(&fake).await;
        assert_eq!((fake.left(), removal.fails), (vec![], false));
    }
}
