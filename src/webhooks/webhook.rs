//! A webhook, its progress through the journal, and the requests and errors of webhooks.

use super::filter::Filter;
use super::signature::WebhookSecret;
use super::target::Target;
use accounts::secrets::SecretError;
use domain::{DeliveryId, Description, EventType, Identifier, Timestamp, WebhookId};
use outbound::Refused;
use store::StoreError;

use super::delivery::DeliveryStatus;

/// Per organization; each has its own copy of its deliveries.
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
    /// The number of the secret that signs; the vault has it, sealed.
    pub secret: u32,
    /// The previous secret, which also signs for a while.
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
    /// A member disabled it.
    Asked,
    /// Its receiver answered 410.
    Gone,
    /// Its deliveries had failed for too long.
    Failing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviousSecret {
    pub number: u32,
    pub until: Timestamp,
}

/// The progress of a webhook through the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The number of the next event to capture.
    pub cursor: u64,
    /// Events that were dropped before they were captured.
    pub missed: u64,
    /// Since when every attempt has failed.
    pub failing_since: Option<Timestamp>,
    /// Deliveries that have neither arrived nor been given up.
    pub pending: u32,
    pub last: Option<LastDelivery>,
}

/// The last attempt of any delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastDelivery {
    pub delivery: DeliveryId,
    pub event_type: EventType,
    pub at: Timestamp,
    pub status: DeliveryStatus,
    pub code: Option<u16>,
}

/// A webhook and its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookState {
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

/// `None` leaves a field unchanged.
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
    #[error("the organization has the maximum of {WEBHOOKS_MAX} webhooks; delete one first")]
    TooMany,
    #[error("the webhook does not exist")]
    NotFound,
    #[error("the delivery does not exist or is no longer kept")]
    DeliveryNotFound,
    #[error("the webhook is disabled; enable it first")]
    Disabled,
    #[error(transparent)]
    NotPublic(#[from] Refused),
    #[error("too many concurrent test calls")]
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

    /// The name under which the vault keeps a secret of it.
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
