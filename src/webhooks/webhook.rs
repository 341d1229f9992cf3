//! A webhook, what can be asked of it, and how far it has come.

use super::address::NotPublic;
use super::filter::Filter;
use super::signature::WebhookSecret;
use super::target::Target;
use crate::domain::{DeliveryId, Description, Identifier, Notice, Timestamp, WebhookId};
use crate::secrets::SecretError;
use crate::store::StoreError;

use super::delivery::DeliveryStatus;

/// Each has its own copy of what it is sent, so they are far fewer than other things.
pub const WEBHOOKS_MAX: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub organization: Identifier,
    pub id: WebhookId,
    pub target: Target,
    /// None: all events.
    pub filters: Vec<Filter>,
    pub description: Description,
    /// None while it is enabled.
    pub disabled: Option<Disabled>,
    /// Which of its secrets signs. They are numbered, and lie sealed elsewhere.
    pub secret: u32,
    /// The one before, which signs too for a while.
    pub previous: Option<PreviousSecret>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disabled {
    pub at: Timestamp,
    pub why: DisabledWhy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisabledWhy {
    /// Somebody asked for it.
    Asked,
    /// Its receiver answered 410.
    Gone,
    /// Nothing had arrived for long.
    Failing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviousSecret {
    pub number: u32,
    pub until: Timestamp,
}

/// How far a webhook has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The number of the next event to be looked at.
    pub cursor: u64,
    /// Events that were no longer kept when their turn came.
    pub missed: u64,
    /// Since when every attempt has failed.
    pub failing_since: Option<Timestamp>,
    /// Deliveries that have neither arrived nor been given up.
    pub pending: u32,
    pub last: Option<LastDelivery>,
}

/// The last attempt to deliver something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastDelivery {
    pub delivery: DeliveryId,
    pub notice: Notice,
    pub at: Timestamp,
    pub status: DeliveryStatus,
    pub code: Option<u16>,
}

/// A webhook as readers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub webhook: Webhook,
    pub progress: Progress,
}

#[derive(Debug, Clone)]
pub struct NewWebhook {
    pub target: Target,
    pub filters: Vec<Filter>,
    pub description: Description,
    pub enabled: bool,
    pub secret: WebhookSecret,
}

/// What is `None` stays as it is.
#[derive(Debug, Clone, Default)]
pub struct WebhookChange {
    pub target: Option<Target>,
    pub filters: Option<Vec<Filter>>,
    pub description: Option<Description>,
    pub enabled: Option<bool>,
}

#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("the organization has {WEBHOOKS_MAX} webhooks, which is the most it can have; delete one first")]
    TooMany,
    #[error("there is no such webhook")]
    NotFound,
    #[error("the webhook has no such delivery, or no longer remembers it")]
    DeliveryNotFound,
    #[error("the webhook is disabled; enable it first")]
    Disabled,
    #[error(transparent)]
    NotPublic(#[from] NotPublic),
    #[error("too many test calls are being made at once")]
    Busy,
}

impl Webhook {
    pub fn is_enabled(&self) -> bool {
        self.disabled.is_none()
    }

    /// The numbers of the secrets that sign now.
    pub(super) fn signing(&self, now: Timestamp) -> impl Iterator<Item = u32> {
        let previous = self.previous.filter(|previous| now < previous.until);
        std::iter::once(self.secret).chain(previous.map(|previous| previous.number))
    }

    /// Under which name a secret of it is kept.
    pub(super) fn secret_name(&self, number: u32) -> String {
        format!("webhook/{}/{number}", self.id)
    }
}

impl Progress {
    pub(super) fn from(cursor: u64) -> Self {
        Self { cursor, missed: 0, failing_since: None, pending: 0, last: None }
    }
}

impl DisabledWhy {
    /// For people.
    pub const fn reason(self) -> &'static str {
        match self {
            DisabledWhy::Asked => "a member disabled it",
            DisabledWhy::Gone => "its receiver answered 410 Gone",
            DisabledWhy::Failing => "no delivery had arrived for too long",
        }
    }
}
