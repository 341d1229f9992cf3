//! Tells requests that are under way, and those that wait, that permissions have been taken away.

use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use tokio::sync::watch;

use domain::Identifier;

/// Changes that take a permission away: a revoked token, a removed or demoted member.
#[derive(Default)]
pub struct Revocations {
    /// Of all organizations: one load tells a request that nothing has been taken away since it was authenticated.
    count: AtomicU64,
    /// One per organization that somebody has waited in, so that revocations of one do not wake the waiters of another.
    announced: DashMap<Identifier, watch::Sender<()>>,
}

impl Revocations {
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Changes with every later revocation in the organization.
    pub fn watch(&self, organization: &Identifier) -> watch::Receiver<()> {
        if let Some(announced) = self.announced.get(organization) {
            return announced.subscribe();
        }
        self.announced.entry(organization.clone()).or_default().subscribe()
    }

    /// Called after the accounts have changed.
    pub(super) fn announce(&self, organization: &Identifier) {
        self.count.fetch_add(1, Ordering::AcqRel);
        if let Some(announced) = self.announced.get(organization) {
            announced.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_revocation_wakes_the_waiters_of_its_organization_alone() {
        let (acme, umbrella) = (Identifier::parse("acme").unwrap(), Identifier::parse("umbrella").unwrap());
        let revocations = Revocations::default();
        revocations.announce(&acme);
        let (mine, other) = (revocations.watch(&acme), revocations.watch(&umbrella));
        assert_eq!((revocations.count(), mine.has_changed().unwrap()), (1, false), "it came before");
        revocations.announce(&acme);
        assert_eq!((revocations.count(), mine.has_changed().unwrap()), (2, true));
        assert!(!other.has_changed().unwrap());
    }
}
