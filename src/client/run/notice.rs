//! Waits on the session: the server answers as soon as that changes, so a lost lock is noticed at once, and not by the next
//! heartbeat. A long poll, which works through proxies that buffer answers. Heartbeats notice the loss where this does not work.

use std::time::Duration;

use reqwest::Method;

use crate::acquire::{Fate, Session, Standing, fate};
use crate::api::{Answer, Api, Call};
use crate::holders;
use crate::output::note;
use crate::steady::Moment;

/// Proxies wait for at least half a minute for an answer.
const WAIT_SECONDS: u64 = 25;
/// An answer takes this much longer than what it waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// An answer that came sooner, and says nothing new, comes from something that does not wait.
const SOON: Duration = Duration::from_secs(1);
/// Between two requests that were answered by news, such as our own heartbeats.
const BETWEEN: Duration = Duration::from_millis(100);
/// Pauses after trouble double from the first to the longest. A server that has no place for one more that waits is not asked
/// more often than it gets heartbeats.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
const DOUBLINGS_MAX: u32 = 6;

/// Says in words why the session has ended. Does not return before.
pub async fn lost(api: &Api, mut session: Session) -> String {
    let (mut etag, mut troubles) = (None, 0);
    loop {
        let asked = Moment::now();
        match wait_for_news(api, &session, etag.as_ref()).await {
            Ok(answer) if answer.status == 304 => {
                let waited = Moment::now().since(asked) >= SOON;
                troubles = if waited { 0 } else { troubles + 1 };
            }
            Ok(answer) => {
                let is_it = answer.data["sessionId"] == session.data["sessionId"];
                // Something between may take the ETag away, or answer from what it keeps.
                let is_news = is_it && answer.etag.is_some() && answer.etag != etag;
                troubles = if is_news { 0 } else { troubles + 1 };
                if is_it {
                    etag = answer.etag;
                    session.data = answer.data;
                }
                if is_it && session.standing() == Standing::Ended {
                    let words = session.data.as_object().and_then(holders::lost_in_words);
                    return words.unwrap_or_else(|| "the session has ended".to_owned());
                }
            }
            Err(Fate::Lost(words)) => return words,
            Err(Fate::Unclear(_)) => troubles += 1,
            Err(Fate::Refused(failure)) => {
                if troubles == 0 {
                    note(&format!("lockkeeper: a lost lock is noticed with the next heartbeat only: {failure}"));
                }
                troubles += 1;
            }
        }
        tokio::time::sleep(pause(troubles, rand::random())).await;
    }
}

/// Without an ETag the answer comes at once, with the first one.
async fn wait_for_news(api: &Api, session: &Session, etag: Option<&String>) -> Result<Answer, Fate> {
    let seconds = if etag.is_some() { WAIT_SECONDS } else { 0 };
    let call = api.call(Method::GET, &format!("{}?waitSeconds={seconds}", session.path()));
    let headers = etag.map(|etag| ("If-None-Match", etag.clone())).into_iter().collect();
    let timeout = Duration::from_secs(seconds) + ANSWER_WITHIN;
    api.send(Call { headers, patience: Duration::ZERO, timeout, ..call }).await.map_err(fate)
}

/// With half of it by chance: a thousand of these are not to come back at the same moment.
fn pause(troubles: u32, chance: f64) -> Duration {
    match troubles {
        0 => BETWEEN,
        _ => PAUSE_FIRST
            .saturating_mul(1 << (troubles - 1).min(DOUBLINGS_MAX))
            .min(PAUSE_MAX)
            .mul_f64(0.5 + chance / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_short_after_news_and_grow_with_trouble() {
        assert_eq!(pause(0, 1.0), BETWEEN);
        let pauses: Vec<u64> = (1..10).map(|troubles| pause(troubles, 1.0).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(pause(u32::MAX, 0.0), PAUSE_MAX / 2);
    }
}
