//! Hashes passwords on threads of their own, few at a time: each hash takes a processor and 19 MiB for a while, and
//! strangers can ask for as many as they like.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::password::{Password, PasswordHash};

/// Hashes at once. Sign-ins are rare; the rest of the processors is for claims.
const AT_ONCE: usize = 2;
/// Those that wait: a few seconds' worth.
const WAITING_MAX: usize = 64;

pub struct Hashing {
    admitted: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

/// Too many passwords are being checked.
#[derive(Debug, PartialEq, Eq)]
pub struct Crowded;

impl Default for Hashing {
    fn default() -> Self {
        Self { admitted: Arc::new(Semaphore::new(AT_ONCE + WAITING_MAX)), running: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Hashing {
    pub async fn hash(&self, password: Password) -> Result<PasswordHash, Crowded> {
        self.run(move || PasswordHash::of(&password)).await
    }

    pub async fn matches(&self, hash: PasswordHash, text: String) -> Result<bool, Crowded> {
        self.run(move || hash.matches(&text)).await
    }

    /// A hash whose caller has gone cannot be stopped, so it keeps its place until its end.
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Crowded> {
        let admitted = self.admitted.clone().try_acquire_owned().map_err(|_| Crowded)?;
        let running = self.running.clone().acquire_owned().await.map_err(|_| Crowded)?;
        let done = tokio::task::spawn_blocking(move || {
            let _places = (admitted, running);
            work()
        });
        done.await.map_err(|_| Crowded)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn more_hashes_than_may_wait_are_refused() {
        let hashing = Hashing::default();
        let held: Vec<_> = (0..AT_ONCE).map(|_| hashing.running.try_acquire()).collect();
        let mut waiting: Vec<_> = (0..AT_ONCE + WAITING_MAX).map(|_| Box::pin(hashing.run(|| ()))).collect();
        for one in &mut waiting {
            assert!(one.now_or_never().is_none());
        }
        assert_eq!(pin!(hashing.run(|| ())).now_or_never(), Some(Err(Crowded)));
        drop(held);
        for one in waiting {
            assert_eq!(one.await, Ok(()));
        }
        assert_eq!(hashing.run(|| 7).await, Ok(7));
    }
}
