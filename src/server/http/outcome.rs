//! Time limits for changes and reads that wait for the disk.

use std::time::Duration;

use futures_util::FutureExt;

use super::codes::Code;
use super::problem::Problem;

/// Long enough for a stalled disk to catch up.
const STALLED_RETRY_SECONDS: u64 = 1;

/// Limits the wait for a stalled disk. The change may still take effect; `look` says how the caller can check.
pub async fn done_within<T, E>(
    limit: Duration,
    look: &str,
    change: impl Future<Output = Result<T, E>>,
) -> Result<T, Problem>
where
    Problem: From<E>,
{
    let Ok(done) = tokio::time::timeout(limit, change).await else {
        let detail =
            format!("the change was not durable in time and may still take effect; {look} before you try again");
        let problem = Problem::new(Code::OutcomeUnknown, detail).retry_after(STALLED_RETRY_SECONDS);
        return Err(problem.because("a change was not durable in time"));
    };
    Ok(done?)
}

/// Like [`done_within`], in a separate task, so that the change is completed even if the caller has disconnected or
/// timed out. The idempotency key stays in use until the change is durable.
pub async fn done_in_task<T: 'static, E: 'static>(
    limit: Duration,
    look: &str,
    change: impl Future<Output = Result<T, E>> + 'static,
) -> Result<T, Problem>
where
    Problem: From<E>,
{
    let changing = actix_web::rt::spawn(change.boxed_local());
    done_within::<_, Problem>(limit, look, async { Ok(changing.await.map_err(Problem::internal)??) }).await
}

/// Like [`done_within`], for a read that waits for a pending change of `what`.
pub async fn read_within<T>(limit: Duration, what: &str, read: impl Future<Output = T>) -> Result<T, Problem> {
    tokio::time::timeout(limit, read).await.map_err(|_| {
        let detail = format!("a change of the {what} is still waiting for the disk; try again after `Retry-After`");
        let problem = Problem::new(Code::Overloaded, detail).retry_after(STALLED_RETRY_SECONDS);
        problem.because(format!("the {what} were not read in time: a change of them is not durable yet"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::StoreError;

    #[actix::test]
    async fn a_change_that_is_not_durable_in_time_has_an_unknown_outcome() {
        let stalled = std::future::pending::<Result<(), StoreError>>();
        let outcome = done_within(Duration::from_millis(1), "look", stalled).await;
        assert_eq!(outcome.map_err(|problem| problem.code()), Err(Code::OutcomeUnknown));
    }

    #[actix::test]
    async fn a_read_that_waits_too_long_for_the_disk_can_be_retried() {
        let read = read_within(Duration::from_millis(1), "tokens", std::future::pending::<()>()).await;
        assert_eq!(read.map_err(|problem| problem.code()), Err(Code::Overloaded));
        assert_eq!(read_within(Duration::from_secs(60), "tokens", std::future::ready(7)).await.ok(), Some(7));
    }

    #[actix::test]
    async fn a_change_in_time_is_answered_with_its_result() {
        let limit = Duration::from_secs(60);
        let made = done_within(limit, "look", std::future::ready(Ok::<_, StoreError>(7))).await;
        assert_eq!(made.map_err(|problem| problem.code()), Ok(7));
        let refused = done_within(limit, "look", std::future::ready(Err::<(), _>(StoreError::Overloaded))).await;
        assert_eq!(refused.map_err(|problem| problem.code()), Err(Code::Overloaded));
    }
}
