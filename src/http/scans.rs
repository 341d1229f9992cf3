//! Reads of whole lists cost the most of all reads: a few go on at once, a crowd waits its turn, and beyond that they are
//! refused.

use actix_web::web;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::problem::Problem;

pub struct Scans {
    going_on: Semaphore,
    admitted: Semaphore,
}

/// A turn to read, until it is dropped.
pub struct Place<'a> {
    _going_on: SemaphorePermit<'a>,
    _admitted: SemaphorePermit<'a>,
}

impl Scans {
    pub fn new(at_once: usize, waiting_max: usize) -> Self {
        Self { going_on: Semaphore::new(at_once), admitted: Semaphore::new(at_once + waiting_max) }
    }

    /// Waits for a turn; none if too many wait already.
    pub async fn place(&self) -> Option<Place<'_>> {
        let admitted = self.admitted.try_acquire().ok()?;
        let going_on = self.going_on.acquire().await.ok()?;
        Some(Place { _going_on: going_on, _admitted: admitted })
    }

    /// Reads much from the store, away from the threads that answer; a few at a time.
    pub async fn read<T: Send + 'static, E: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem>
    where
        Problem: From<E>,
    {
        let Some(_place) = self.place().await else {
            return Err(Problem::overloaded("too many lists are being read at once"));
        };
        Ok(web::block(read).await.map_err(Problem::internal)??)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_crowd_waits_its_turn_and_what_is_beyond_it_is_refused() {
        let scans = Scans::new(1, 1);
        let first = scans.place().await.unwrap();
        let mut second = Box::pin(scans.place());
        assert!(second.as_mut().now_or_never().is_none());
        assert!(scans.place().await.is_none());
        drop(first);
        assert!(second.await.is_some());
        assert!(scans.place().await.is_some());
    }
}
