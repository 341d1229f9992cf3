//! Asks an engine again that does not answer.

use std::time::Duration;

use tokio::time::Instant;

use ambient::backoff::{Backoff, Retries};
use store::engine::EngineError;

/// Longer than an engine needs for a new leader, or a database for its failover.
const PATIENCE: Duration = Duration::from_secs(60);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

/// The answer to a question that may be asked again, if there is one within a minute.
pub async fn answered<T>(mut ask: impl AsyncFnMut() -> Result<T, EngineError>) -> Result<T, EngineError> {
    let (began, mut retries) = (Instant::now(), Retries::new(BACKOFF));
    loop {
        match ask().await {
            Err(EngineError::Away(_)) if began.elapsed() < PATIENCE => {
                tokio::time::sleep(retries.failed()).await;
            }
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_engine_is_asked_until_it_answers_or_has_been_silent_for_a_minute() {
        let mut asked = 0;
        let silent = answered(async || {
            asked += 1;
            if asked < 5 { Err(EngineError::Away("gone".to_owned())) } else { Ok(asked) }
        });
        assert_eq!(silent.await.unwrap(), 5);
        let began = Instant::now();
        let never = answered(async || Err::<(), _>(EngineError::Away("gone".to_owned()))).await;
        assert!(matches!(never, Err(EngineError::Away(_))) && began.elapsed() >= PATIENCE);
        let deposed = answered(async || Err::<(), _>(EngineError::Deposed)).await;
        assert!(matches!(deposed, Err(EngineError::Deposed)));
    }
}
