//! The delivery of one event to one webhook.

use domain::named::named_enum;
use domain::{DeliveryId, EventType, Timestamp};
use events::EventId;

/// Attempts kept per delivery: those of the longest schedule and some redeliveries.
pub const ATTEMPTS_KEPT: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    /// Also the id that the receiver gets, the same for every attempt.
    pub event: EventId,
    pub event_type: EventType,
    /// The same for every attempt.
    pub body: Vec<u8>,
    pub created_at: Timestamp,
    pub status: DeliveryStatus,
    /// Attempts since it was created or last redelivered.
    pub tries: u32,
    /// The newest, oldest first.
    pub attempts: Vec<Attempt>,
    /// None for a first attempt, and once it has arrived or is given up.
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
    /// Why it counts as failed.
    pub error: Option<String>,
    /// The beginning of the response body, as far as it is text.
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
