//! Removes from the store of logs what deployments have left there that are no longer kept. An entry that cannot be read, or whose
//! log cannot be removed, holds up no other.

use std::collections::BTreeSet;

use crate::http::Realm;
use delivery::archive::{Archive, StoreFailure};
use domain::DroppedLog;
use locks::DroppedEntry;
use store::StoreError;

/// Entries that are read at once.
const READ_AT_ONCE: usize = 100;
/// After so many failures in a row the store is left alone until the next round, which goes on with the next entry.
const FAILURES_MAX: usize = 4;
/// Entries of which it is remembered that the log names them; more are passed over without a line.
const LOGGED_MAX: usize = 100;

/// The entries of a realm, and the store.
pub trait DroppedLogs {
    fn entries(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<DroppedEntry>, StoreError>;
    /// False without a store.
    async fn remove(&self, log: &DroppedLog) -> Result<bool, StoreFailure>;
    async fn forget(&self, log: &DroppedLog) -> Result<(), StoreError>;
}

impl DroppedLogs for (&Realm, &Archive) {
    fn entries(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<DroppedEntry>, StoreError> {
        self.0.environments.dropped_logs(after, limit)
    }

    async fn remove(&self, log: &DroppedLog) -> Result<bool, StoreFailure> {
        self.1.remove(log).await
    }

    async fn forget(&self, log: &DroppedLog) -> Result<(), StoreError> {
        self.0.environments.log_is_removed(log).await
    }
}

#[derive(Default)]
pub struct DroppedLogRemoval {
    /// The key after which the next round begins.
    after: Option<Vec<u8>>,
    /// Whether the log says that removals fail.
    fails: bool,
    /// The keys of unreadable entries that the log names.
    logged: BTreeSet<Vec<u8>>,
}

impl DroppedLogRemoval {
    /// Tries each entry once, unless the store fails. Returns whether nothing failed.
    pub async fn round(&mut self, of: &impl DroppedLogs) -> bool {
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

/// False without a store.
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

    /// Entries by the first byte of their keys.
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

        async fn remove(&self, log: &DroppedLog) -> Result<bool, StoreFailure> {
            self.asked.set(self.asked.get() + 1);
            let fails = self.is_down.get() || self.not_removable.contains(&log.deployment.0.0[0]);
            if fails { Err(StoreFailure::passing("down")) } else { Ok(true) }
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
