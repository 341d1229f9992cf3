//! Limits how many whole lists are read at once, since those are the most expensive reads. More of them wait, up to a
//! bound, and further ones are refused.

use actix_web::web;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::problem::Problem;

pub struct Scans {
    running: Semaphore,
    admitted: Semaphore,
}

/// Permission to read, until it is dropped.
pub struct ScanPermit<'a> {
    _running: SemaphorePermit<'a>,
    _admitted: SemaphorePermit<'a>,
}

impl Scans {
    pub fn new(at_once: usize, waiting_max: usize) -> Self {
        Self { running: Semaphore::new(at_once), admitted: Semaphore::new(at_once + waiting_max) }
    }

    /// Waits for a permit; `None` if too many wait already.
    pub async fn permit(&self) -> Option<ScanPermit<'_>> {
        let admitted = self.admitted.try_acquire().ok()?;
        let running = self.running.acquire().await.ok()?;
        Some(ScanPermit { _running: running, _admitted: admitted })
    }

    /// Runs a long read of the store on a thread that may block.
    pub async fn read<T: Send + 'static, E: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem>
    where
        Problem: From<E>,
    {
        let Some(_permit) = self.permit().await else {
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
    async fn reads_beyond_the_limit_wait_and_those_beyond_the_bound_are_refused() {
        let scans = Scans::new(1, 1);
        let first = scans.permit().await.unwrap();
        let mut second = Box::pin(scans.permit());
        assert!(second.as_mut().now_or_never().is_none());
        assert!(scans.permit().await.is_none());
        drop(first);
        assert!(second.await.is_some());
        assert!(scans.permit().await.is_some());
    }
}
