//! Hashes passwords on threads of their own, few at a time: each hash takes a processor and 19 MiB for a while, and
//! strangers can ask for as many as they like.

use super::password::{Password, PasswordHash};
use domain::Identifier;
use shares::{Capacity, Places};

/// Hashes at once. Sign-ins are rare; the rest of the processors is for claims.
const AT_ONCE: usize = 2;
/// Those that wait: a few seconds' worth.
const WAITING_MAX: usize = 64;

pub struct Hashing(Places);

/// Too many passwords are being checked.
#[derive(Debug, PartialEq, Eq)]
pub struct Crowded;

impl Hashing {
    /// Shared by so many organizations.
    pub fn among(organizations: usize) -> Self {
        let [running, waiting] = [AT_ONCE, WAITING_MAX].map(|total| Capacity::turns(total).among(organizations));
        Self(Places::new("password_hashes", running, waiting))
    }

    pub async fn hash(&self, organization: &Identifier, password: Password) -> Result<PasswordHash, Crowded> {
        self.run(organization, move || PasswordHash::of(&password)).await
    }

    pub async fn matches(&self, organization: &Identifier, hash: PasswordHash, text: String) -> Result<bool, Crowded> {
        self.run(organization, move || hash.matches(&text)).await
    }

    /// A hash whose caller has gone cannot be stopped, so it keeps its place until its end.
    async fn run<T: Send + 'static>(
        &self,
        organization: &Identifier,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Crowded> {
        let place = self.0.acquire(organization).await.map_err(|_| Crowded)?;
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.map_err(|_| Crowded)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;
    use domain::samples;

    #[tokio::test]
    async fn one_organization_cannot_keep_another_from_hashing() {
        let hashing = Hashing::among(2);
        let [acme, other] = ["acme", "other"].map(samples::identifier);
        let held: Vec<_> = (0..AT_ONCE).map(|_| hashing.0.try_acquire(&acme)).collect();
        let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| Box::pin(hashing.run(&acme, || ()))).collect();
        waiting.retain_mut(|one| one.now_or_never().is_none());
        assert!((WAITING_MAX / 2..WAITING_MAX).contains(&waiting.len()), "{}", waiting.len());
        assert_eq!(pin!(hashing.run(&acme, || ())).now_or_never(), Some(Err(Crowded)));
        // Before any hash of the first one has ended.
        assert_eq!(hashing.run(&other, || 7).await, Ok(7));
        drop(held);
        for one in waiting {
            assert_eq!(one.await, Ok(()));
        }
    }

    #[tokio::test]
    async fn more_hashes_than_may_wait_are_refused() {
        let hashing = Hashing::among(1);
        let acme = samples::identifier("acme");
        let held: Vec<_> = (0..AT_ONCE).map(|_| hashing.0.try_acquire(&acme).unwrap()).collect();
        let mut waiting: Vec<_> = (0..WAITING_MAX).map(|_| Box::pin(hashing.run(&acme, || ()))).collect();
        for one in &mut waiting {
            assert!(one.now_or_never().is_none());
        }
        assert_eq!(pin!(hashing.run(&acme, || ())).now_or_never(), Some(Err(Crowded)));
        drop(held);
        for one in waiting {
            assert_eq!(one.await, Ok(()));
        }
        assert_eq!(hashing.run(&acme, || 7).await, Ok(7));
    }
}
