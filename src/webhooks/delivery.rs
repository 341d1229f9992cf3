//! The delivery of one event to one webhook, the order in which a webhook's deliveries are sent, and when a failed one
//! is retried. The deliveries themselves are in the store.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use domain::named::named_enum;
use domain::{DeliveryId, EventType, IdSeed, Timestamp};
use events::EventId;

/// Attempts kept per delivery: enough for the longest schedule and some redeliveries.
pub const ATTEMPTS_KEPT: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    /// Also the receiver's id of the delivery, the same for every attempt.
    pub event: EventId,
    pub event_type: EventType,
    /// The same for every attempt.
    pub body: Arc<[u8]>,
    pub created_at: Timestamp,
    pub status: DeliveryStatus,
    /// The number of attempts since the delivery was created or last redelivered.
    pub tries: u32,
    /// The newest attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// None before the first attempt, and after the delivery has arrived or been given up.
    pub next_attempt_at: Option<Timestamp>,
}

named_enum! {
    pub enum DeliveryStatus {
        Pending = "pending",
        Delivered = "delivered",
        Failed = "failed",
    }
}

/// The outcome of sending a delivery once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub at: Timestamp,
    pub millis: u32,
    /// The status of the response, if there was one.
    pub code: Option<u16>,
    /// Why the attempt counts as failed.
    pub error: Option<String>,
    /// The beginning of the response body, if it is text.
    pub excerpt: String,
}

impl Delivery {
    pub(super) fn add(&mut self, attempt: Attempt) {
        self.tries = self.tries.saturating_add(1);
        self.attempts.push(attempt);
        let surplus = self.attempts.len().saturating_sub(ATTEMPTS_KEPT);
        self.attempts.drain(..surplus);
    }
}

/// The number of ended deliveries kept for inspection.
pub const FINISHED_KEPT: usize = 1_000;
/// Concurrent deliveries to a working receiver.
const CONCURRENT: usize = 4;
/// Concurrent deliveries to a failing receiver. More would only block senders that others could use.
const CONCURRENT_WHILE_FAILING: usize = 1;

#[derive(Debug, Default)]
pub struct DeliveryQueue {
    /// Deliveries not attempted yet, in the order of their events, with their times of creation.
    fresh: VecDeque<(Timestamp, DeliveryId)>,
    /// Deliveries to retry, in the order of due times.
    retries: BTreeSet<(Timestamp, DeliveryId)>,
    /// Deliveries being sent or changed.
    taken: BTreeSet<DeliveryId>,
    finished: BTreeSet<DeliveryId>,
}

impl DeliveryQueue {
    /// Builds the queue from the stored deliveries.
    pub fn load(mut deliveries: Vec<Delivery>) -> Self {
        deliveries.sort_unstable_by_key(|delivery| delivery.event.number);
        let mut queue = Self::default();
        for delivery in &deliveries {
            queue.put(delivery);
        }
        queue
    }

    /// Enqueues a delivery by its status.
    pub fn put(&mut self, delivery: &Delivery) {
        match (delivery.status, delivery.next_attempt_at) {
            (DeliveryStatus::Pending, None) => self.fresh.push_back((delivery.created_at, delivery.id)),
            (DeliveryStatus::Pending, Some(due)) => _ = self.retries.insert((due, delivery.id)),
            (DeliveryStatus::Delivered | DeliveryStatus::Failed, _) => _ = self.finished.insert(delivery.id),
        }
    }

    /// Takes the next due delivery, exclusively until it is given back.
    pub fn take_due(&mut self, now: Timestamp, failing: bool) -> Option<DeliveryId> {
        let bound = if failing { CONCURRENT_WHILE_FAILING } else { CONCURRENT };
        if self.taken.len() >= bound {
            return None;
        }
        let retry = self.retries.first().filter(|(due, _)| *due <= now);
        // The delivery that has waited longer is taken, so that neither kind starves the other.
        let id = match (self.fresh.front(), retry) {
            (Some(fresh), Some(retry)) if retry < fresh => self.retries.pop_first()?.1,
            (Some(_), _) => self.fresh.pop_front()?.1,
            (None, Some(_)) => self.retries.pop_first()?.1,
            (None, None) => return None,
        };
        self.taken.insert(id);
        Some(id)
    }

    /// Makes retries due now whose time is later than any wait could lead to: the clock has been set back, so the
    /// elapsed part of their wait is unknown.
    pub fn bring_forward(&mut self, now: Timestamp, latest: Timestamp) {
        for (_, id) in self.retries.split_off(&(latest, DeliveryId(IdSeed([u8::MAX; 12])))) {
            self.retries.insert((now, id));
        }
    }

    /// Takes this delivery out of turn. False if it is already taken.
    pub fn take(&mut self, id: DeliveryId) -> bool {
        let is_free = self.taken.insert(id);
        if is_free {
            self.fresh.retain(|(_, known)| *known != id);
            self.retries.retain(|(_, known)| *known != id);
        }
        is_free
    }

    /// Puts a taken delivery back, according to its new status.
    pub fn give_back(&mut self, delivery: &Delivery) {
        self.taken.remove(&delivery.id);
        self.finished.remove(&delivery.id);
        self.put(delivery);
    }

    /// Puts a taken delivery back unchanged, due at this time.
    pub fn postpone(&mut self, id: DeliveryId, until: Timestamp) {
        self.taken.remove(&id);
        if !self.finished.contains(&id) {
            self.retries.insert((until, id));
        }
    }

    /// Puts back a delivery that was taken out of turn. `due` is none if the delivery no longer exists.
    pub fn release(&mut self, id: DeliveryId, due: Option<Timestamp>) {
        match due {
            Some(due) => self.postpone(id, due),
            None => _ = self.taken.remove(&id),
        }
    }

    pub fn next_due(&self) -> Option<Timestamp> {
        self.retries.first().map(|(due, _)| *due)
    }

    /// The oldest ended deliveries, to be removed when another one ends.
    pub fn surplus(&self) -> Vec<DeliveryId> {
        let surplus = (self.finished.len() + 1).saturating_sub(FINISHED_KEPT);
        self.finished.iter().take(surplus).copied().collect()
    }

    pub fn forget(&mut self, finished: &[DeliveryId]) {
        for id in finished {
            self.finished.remove(id);
        }
    }

    pub fn all(&self) -> impl Iterator<Item = DeliveryId> {
        let fresh = self.fresh.iter().map(|(_, id)| *id);
        let retries = self.retries.iter().map(|(_, id)| *id);
        let all: BTreeSet<DeliveryId> = fresh.chain(retries).chain(self.taken.iter().copied()).collect();
        all.into_iter().chain(self.finished.iter().copied())
    }
}

/// The longest `Retry-After` that is honoured.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);
/// Each wait is lengthened by a random part of this, so that deliveries that failed together are not retried together.
const JITTER: f64 = 0.25;

/// The wait after failed attempt number `attempt`, counted from 1; none after the last. `chance` is from 0 to 1.
pub fn wait_after(attempt: u32, waits: &[Duration], retry_after: Option<Duration>, chance: f64) -> Option<Duration> {
    let own = *waits.get(usize::try_from(attempt).ok()?.checked_sub(1)?)?;
    let jittered = own.mul_f64(1.0 + JITTER * chance.clamp(0.0, 1.0));
    Some(jittered.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX)))
}

/// The longest possible wait.
pub fn longest_wait(waits: &[Duration]) -> Duration {
    waits.iter().max().map_or(RETRY_AFTER_MAX, |longest| longest.mul_f64(1.0 + JITTER).max(RETRY_AFTER_MAX))
}

/// The value of `Retry-After`: seconds or an HTTP date.
pub fn parse_retry_after(text: &str, now_millis: i64) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(text.parse().map_or(RETRY_AFTER_MAX, Duration::from_secs));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::from_millis(u64::try_from(at.as_millisecond().saturating_sub(now_millis)).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const WAITS: [Duration; 3] = [Duration::from_secs(4), Duration::from_secs(40), Duration::from_secs(400)];

    #[test]
    fn each_attempt_has_its_wait_and_after_the_last_there_is_none() {
        let waits: Vec<_> = (1..=5).map(|attempt| wait_after(attempt, &WAITS, None, 0.0)).collect();
        assert_eq!(waits, [Some(WAITS[0]), Some(WAITS[1]), Some(WAITS[2]), None, None]);
        assert_eq!(wait_after(1, &[], None, 0.5), None, "no waits: one attempt");
        assert_eq!(wait_after(0, &WAITS, None, 0.5), None);
    }

    #[test]
    fn chance_makes_a_wait_longer_and_never_shorter() {
        assert_eq!(wait_after(2, &WAITS, None, 0.5), Some(Duration::from_secs(45)));
        assert_eq!(wait_after(2, &WAITS, None, 1.0), Some(Duration::from_secs(50)));
        assert_eq!(wait_after(2, &WAITS, None, 7.0), Some(Duration::from_secs(50)));
    }

    #[test]
    fn no_wait_is_longer_than_the_longest() {
        assert_eq!(longest_wait(&WAITS), RETRY_AFTER_MAX);
        assert_eq!(longest_wait(&[]), RETRY_AFTER_MAX);
        let days = [Duration::from_hours(48), Duration::from_hours(24)];
        assert_eq!(wait_after(1, &days, None, 1.0), Some(longest_wait(&days)));
    }

    #[test]
    fn a_receiver_can_ask_for_more_time_within_bounds_and_never_for_less() {
        let after = |seconds| wait_after(1, &WAITS, Some(Duration::from_secs(seconds)), 0.0);
        assert_eq!(after(1), Some(WAITS[0]));
        assert_eq!(after(90), Some(Duration::from_secs(90)));
        assert_eq!(after(1_000_000), Some(RETRY_AFTER_MAX));
        assert_eq!(wait_after(4, &WAITS, Some(Duration::from_secs(90)), 0.0), None, "nor for another attempt");
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = 784_111_777_000;
        for (text, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("99999999999999999999999", Some(RETRY_AFTER_MAX.as_secs())),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:17 GMT", Some(0)),
            ("soon", None),
            ("-5", None),
            ("", None),
        ] {
            assert_eq!(parse_retry_after(text, now), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
