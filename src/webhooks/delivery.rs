//! One event on its way to one webhook.

use crate::domain::named::named_enum;
use crate::domain::{DeliveryId, Notice, Timestamp};
use crate::events::EventId;

/// As many as the longest schedule has, with some of redeliveries; older ones are dropped.
pub const ATTEMPTS_KEPT: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    /// Also the id that its receiver knows it by, whichever attempt it is.
    pub event: EventId,
    pub notice: Notice,
    /// What is sent, always the same.
    pub body: Vec<u8>,
    pub created_at: Timestamp,
    pub status: DeliveryStatus,
    /// Attempts since it was made, or since it was last asked for again.
    pub tries: u32,
    /// The newest, oldest first.
    pub attempts: Vec<Attempt>,
    /// None once it has arrived or is given up.
    pub next_attempt_at: Option<Timestamp>,
}

named_enum! {
    pub enum DeliveryStatus {
        Pending = "pending",
        Delivered = "delivered",
        Failed = "failed",
    }
}

/// What came of sending something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub at: Timestamp,
    pub millis: u32,
    /// None if there was no answer.
    pub code: Option<u16>,
    /// Why it does not count as arrived.
    pub error: Option<String>,
    /// The beginning of the answer's body, as far as it is text.
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
