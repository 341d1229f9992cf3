//! The lease of the lock: how long this side may rely on it, never longer than the server's; the heartbeats that renew
//! it while the command runs; and a long poll on the session, so that a lost lock is noticed before the next heartbeat.
//! The poll works through proxies that buffer answers. Where polling does not work, heartbeats notice the loss.

use std::time::Duration;

use tokio::sync::watch;

use crate::acquire::{Acquired, Fate, Session, Standing, fate, heartbeat};
use crate::api::Api;
use crate::failure::Failure;
use crate::holders;
use crate::output::note;
use crate::steady::{Alarm, Moment};

/// The command ends this long before the lease, to allow for delays of the scheduler and differences between two
/// clocks.
pub const MARGIN: Duration = Duration::from_secs(1);
/// With a shorter TTL, no time would be left between asking a command to end and the end of the lease.
pub const TTL_MIN: Duration = Duration::from_secs(5);
/// Frequent enough that a single lost heartbeat is harmless.
const BEATS_PER_TTL: u32 = 4;
/// A heartbeat is sent again after this time, since it may have been lost.
const ANSWER_WITHIN_MAX: Duration = Duration::from_secs(10);
/// The pause after a failed heartbeat: this part of the TTL, with this maximum.
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(2);
const AGAINS_PER_TTL: u32 = 20;
/// The time in an answer has a resolution of seconds, so a smaller difference between lease and TTL is ignored.
const DATE_TOLERANCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    ttl: Duration,
    pub until: Moment,
    pub next_beat: Moment,
}

impl Lease {
    /// `sent` is the time before the request that the server answered: the server's lease began later.
    pub fn new(ttl: Duration, sent: Moment, left: Option<Duration>) -> Self {
        let mut lease = Self { ttl, until: sent, next_beat: sent };
        lease.renewed(sent, left);
        lease
    }

    /// `left`: the remaining time in the answer. Less than the TTL if the environment limits how long it may be held.
    pub fn renewed(&mut self, sent: Moment, left: Option<Duration>) {
        let left = left.filter(|left| *left + DATE_TOLERANCE < self.ttl).map(|left| left.saturating_sub(MARGIN));
        self.until = sent.plus(left.unwrap_or(self.ttl));
        self.next_beat = sent.plus(self.ttl / BEATS_PER_TTL);
    }

    /// Called when a heartbeat had no useful answer.
    pub fn unanswered(&mut self, now: Moment) {
        self.next_beat = now.plus((self.ttl / AGAINS_PER_TTL).min(AGAIN_AFTER_MAX));
    }

    pub fn answer_within(&self) -> Duration {
        (self.ttl / BEATS_PER_TTL).min(ANSWER_WITHIN_MAX)
    }

    /// The time between asking the command to end and killing it. Limited, so that a single late heartbeat does not end
    /// the command.
    pub fn grace(&self, wanted: Duration) -> Duration {
        wanted.min(self.ttl / 4)
    }
}

/// A lock that this client holds.
#[derive(Debug, Clone)]
pub struct Held<'a> {
    pub api: &'a Api,
    pub session: Session,
    pub lease: Lease,
}

impl<'a> Held<'a> {
    pub fn new(api: &'a Api, acquired: Acquired, ttl: Duration) -> Self {
        let lease = Lease::new(ttl, acquired.beat.sent, acquired.beat.left);
        Self { api, session: acquired.session, lease }
    }

    /// Renews the lease until the lock is lost, and returns the reason in words. `until` receives every renewal.
    pub async fn keep(self, alarm: Alarm, until: watch::Sender<Moment>) -> String {
        let noticed = until_lost(self.api, self.session.clone());
        tokio::select! {
            words = self.renew(alarm, until) => words,
            words = noticed => words,
        }
    }

    async fn renew(mut self, alarm: Alarm, until: watch::Sender<Moment>) -> String {
        let mut trouble = String::new();
        loop {
            alarm.reached(self.lease.next_beat).await;
            match heartbeat(self.api, &mut self.session, self.lease.answer_within()).await {
                Ok(beat) => {
                    if !trouble.is_empty() {
                        note("lockkeeper: the server answers again; the lock is still held");
                        trouble.clear();
                    }
                    self.lease.renewed(beat.sent, beat.left);
                    until.send_replace(self.lease.until);
                }
                Err(error) => match fate(error) {
                    Fate::Lost(words) => return words,
                    Fate::Unclear(words) => self.missed(words, &mut trouble),
                    // The lock is held until the end of the lease, and another token may be available by then.
                    Fate::Refused(failure) => self.missed(failure.to_string(), &mut trouble),
                },
            }
            if Moment::now() >= self.lease.until.minus(MARGIN) {
                return format!("the lock is lost: it could not be renewed in time: {trouble}");
            }
        }
    }

    fn missed(&mut self, words: String, trouble: &mut String) {
        if trouble.is_empty() {
            note(&format!("lockkeeper: the lock could not be renewed, trying again: {words}"));
        }
        *trouble = words;
        self.lease.unanswered(Moment::now());
    }

    /// Proves that the lock was held until now. Tries until the end of the lease.
    pub async fn confirm(&mut self) -> Result<(), Failure> {
        let alarm = Alarm::new().map_err(|error| Failure::Failed(error.to_string()))?;
        loop {
            let error = match heartbeat(self.api, &mut self.session, self.lease.answer_within()).await {
                Ok(beat) => {
                    self.lease.renewed(beat.sent, beat.left);
                    return Ok(());
                }
                Err(error) => error,
            };
            let words = match fate(error) {
                Fate::Lost(words) => return Err(Failure::LockLost(words)),
                Fate::Refused(failure) => return Err(failure),
                Fate::Unclear(words) => words,
            };
            self.lease.unanswered(Moment::now());
            if self.lease.next_beat >= self.lease.until {
                return Err(Failure::Unreachable(words));
            }
            alarm.reached(self.lease.next_beat).await;
        }
    }

    /// For a lock that is probably already lost: one attempt, without messages.
    pub async fn release_briefly(&self) {
        self.session.release(self.api, Duration::ZERO, self.lease.answer_within()).await.ok();
    }

    /// Releases the lock; if that fails, the lease ends it.
    pub async fn release(&self) {
        let patience = self.lease.until.since(Moment::now());
        if let Err(error) = self.session.release(self.api, patience, self.lease.answer_within()).await {
            let words = Failure::from(error);
            note(&format!("lockkeeper: the lock could not be released and expires on its own: {words}"));
        }
    }
}

/// Proxies wait at least half a minute for an answer.
const WAIT_SECONDS: u64 = 25;
/// An answer that comes sooner without news is from a proxy that does not wait.
const SOON: Duration = Duration::from_secs(1);
/// The minimum time between two requests answered with news, such as our own heartbeats.
const BETWEEN: Duration = Duration::from_millis(100);
/// Pauses after failures double from the first to the longest. A server that has no room for another waiting request is
/// not polled more often than it gets heartbeats.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
const DOUBLINGS_MAX: u32 = 6;

/// Returns when the session has ended, with the reason in words.
async fn until_lost(api: &Api, mut session: Session) -> String {
    let (mut etag, mut troubles) = (None::<String>, 0);
    loop {
        let asked = Moment::now();
        let answer = api.poll(&session.path(), etag.as_deref(), WAIT_SECONDS, Duration::ZERO).await;
        match answer.map_err(fate) {
            Ok(answer) if answer.status == 304 => {
                let waited = Moment::now().since(asked) >= SOON;
                troubles = if waited { 0 } else { troubles + 1 };
            }
            Ok(answer) => {
                let is_it = answer.data["sessionId"] == session.data["sessionId"];
                // A proxy may remove the ETag, or answer from its cache.
                let is_news = is_it && answer.etag.is_some() && answer.etag != etag;
                troubles = if is_news { 0 } else { troubles + 1 };
                if is_it {
                    etag = answer.etag;
                    session.data = answer.data;
                }
                if is_it && session.standing() == Standing::Ended {
                    return holders::end_in_words(&session.data);
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

/// The pause after failures. Half of it is random, so that a thousand clients do not return at the same moment.
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

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    const TTL: Duration = Duration::from_secs(60);

    #[test]
    fn a_lease_is_counted_from_before_the_request() {
        let mut lease = Lease::new(TTL, at(100), None);
        assert_eq!((lease.until, lease.next_beat), (at(160), at(115)));
        lease.renewed(at(115), Some(Duration::from_secs(59)));
        assert_eq!((lease.until, lease.next_beat), (at(175), at(130)));
    }

    #[test]
    fn the_longest_hold_of_an_environment_ends_the_lease_earlier() {
        let mut lease = Lease::new(TTL, at(100), Some(TTL));
        lease.renewed(at(115), Some(Duration::from_secs(50)));
        assert_eq!(lease.until, at(164));
        lease.renewed(at(130), Some(Duration::from_secs(20)));
        assert_eq!(lease.until, at(149), "somebody has made it shorter");
    }

    #[test]
    fn three_heartbeats_may_be_lost_one_after_the_other() {
        let mut lease = Lease::new(TTL, at(0), None);
        let stops_at = lease.until.minus(MARGIN).minus(lease.grace(Duration::from_secs(10)));
        let mut sent = 0;
        while lease.next_beat < stops_at {
            sent += 1;
            let answered_by = lease.next_beat.plus(lease.answer_within());
            lease.unanswered(answered_by);
        }
        assert!(sent >= 3, "{sent}");
    }

    #[test]
    fn asking_takes_at_most_a_quarter_of_the_lease() {
        let lease = Lease::new(TTL_MIN, at(0), None);
        assert_eq!(lease.grace(Duration::from_secs(10)), Duration::from_millis(1_250));
        assert_eq!(lease.grace(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn pauses_are_short_after_news_and_grow_with_trouble() {
        assert_eq!(pause(0, 1.0), BETWEEN);
        let pauses: Vec<u64> = (1..10).map(|troubles| pause(troubles, 1.0).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(pause(u32::MAX, 0.0), PAUSE_MAX / 2);
    }
}
