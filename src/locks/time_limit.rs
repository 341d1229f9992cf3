//! A time limit for answers that take milliseconds unless something is badly wrong. A timer per answer would cost more
//! than the wait itself, so one task per thread checks all waits a few times per second.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slab::Slab;
use tokio::task::JoinHandle;

/// By how much a limit may be exceeded.
const STEP: Duration = Duration::from_millis(250);

#[derive(Debug, PartialEq, Eq)]
pub struct Elapsed;

thread_local! {
    static WAITS: RefCell<Waits> = RefCell::default();
}

#[derive(Default)]
struct Waits {
    pending: Slab<Pending>,
    /// Steps counted since the thread first waited for something.
    now: u64,
    stepping: Option<JoinHandle<()>>,
}

struct Pending {
    /// The step at which the limit is reached.
    until: u64,
    waker: Waker,
}

/// The index of a wait of this thread.
struct WaitIndex(usize);

/// Awaits the answer for at most `limit`. The limit ends the wait, not the work.
pub async fn within<F: Future>(limit: Duration, answer: F) -> Result<F::Output, Elapsed> {
    let (mut answer, mut index) = (pin!(answer), None);
    poll_fn(|context| {
        if let Poll::Ready(answer) = answer.as_mut().poll(context) {
            return Poll::Ready(Ok(answer));
        }
        match &index {
            None => index = Some(WaitIndex::new(limit, context)),
            Some(index) if index.is_past(context) => return Poll::Ready(Err(Elapsed)),
            Some(_) => {}
        }
        Poll::Pending
    })
    .await
}

impl WaitIndex {
    fn new(limit: Duration, context: &Context<'_>) -> Self {
        WAITS.with_borrow_mut(|waits| {
            if waits.stepping.as_ref().is_none_or(JoinHandle::is_finished) {
                waits.stepping = Some(tokio::task::spawn_local(step()));
            }
            // The current step has already begun.
            let steps = limit.as_nanos().div_ceil(STEP.as_nanos()) as u64 + 1;
            Self(waits.pending.insert(Pending { until: waits.now + steps, waker: context.waker().clone() }))
        })
    }

    fn is_past(&self, context: &Context<'_>) -> bool {
        WAITS.with_borrow_mut(|waits| {
            let pending = &mut waits.pending[self.0];
            pending.waker.clone_from(context.waker());
            pending.until <= waits.now
        })
    }
}

impl Drop for WaitIndex {
    fn drop(&mut self) {
        // On an ending thread, the list may be destroyed before its waits.
        WAITS.try_with(|waits| waits.borrow_mut().pending.remove(self.0)).ok();
    }
}

/// Ends when there are no more waits.
async fn step() {
    loop {
        tokio::time::sleep(STEP).await;
        let past: Option<Vec<_>> = WAITS.with_borrow_mut(|waits| {
            waits.now += 1;
            let now = waits.now;
            let past = |(_, pending): (_, &Pending)| (pending.until <= now).then(|| pending.waker.clone());
            (!waits.pending.is_empty()).then(|| waits.pending.iter().filter_map(past).collect())
        });
        let Some(past) = past else { return };
        past.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::Instant;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[actix::test]
    async fn an_answer_is_not_delayed() {
        assert_eq!(within(LIMIT, ready(7)).await, Ok(7));
        assert_eq!(within(LIMIT, tokio::task::yield_now()).await, Ok(()));
        assert_eq!(within(Duration::ZERO, ready(7)).await, Ok(7));
    }

    #[actix::test]
    async fn a_wait_ends_soon_after_its_limit_and_never_before() {
        tokio::time::pause();
        for _ in 0..3 {
            // Begins between two steps, while longer and shorter waits are pending.
            tokio::time::sleep(STEP / 3).await;
            let begun = Instant::now();
            let longer = within(LIMIT * 2, pending::<()>());
            let shorter = within(LIMIT / 2, pending::<()>());
            let (ended, at) = tokio::select! {
                _ = longer => panic!("it waits longer"),
                ended = async { (shorter.await, within(LIMIT / 2, pending::<()>()).await) } => (ended, begun.elapsed()),
            };
            assert_eq!(ended, (Err(Elapsed), Err(Elapsed)));
            assert!((LIMIT..=LIMIT + STEP * 4).contains(&at), "{at:?}");
        }
    }

    #[actix::test]
    async fn nothing_is_left_of_a_wait_that_was_given_up() {
        tokio::time::pause();
        for _ in 0..2 {
            let given_up = tokio::time::timeout(STEP, within(LIMIT, pending::<()>())).await;
            assert!(given_up.is_err());
            assert!(WAITS.with_borrow(|waits| waits.pending.is_empty()));
            let stepping = WAITS.with_borrow_mut(|waits| waits.stepping.take());
            stepping.expect("it began with the wait").await.expect("it ends by itself");
        }
    }
}
