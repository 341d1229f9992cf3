//! Webhooks, their outboxes and deliveries. The caller renders the events.
//!
//! An event that matches a webhook's filters becomes a delivery, with its body, in the batch that moves the webhook's
//! cursor past the event (`capture`). So no event is lost or captured twice, whenever the server dies. A delivery is
//! sent until it arrives or is given up (`sender`); if the server crashes while sending, it is sent again with the same
//! id.
//!
//! **Retries**: first attempts are in the order of the events. `sender` stores each attempt. A failed attempt makes the
//! delivery due again after the wait that `delivery` computes; the queue returns the delivery when it is due. After the
//! last wait of `webhooks.retry_seconds` the delivery is given up. A webhook that has failed for too long is disabled.
//!
//! Writers decide in memory through [`Ordered`](store::Ordered); readers use the store, since there are too many
//! deliveries to keep them in memory twice. Each file uses only those before it: signature, delivery, webhook, stored
//! and client; service (all webhooks); requests; capture, sender.

mod capture;
mod client;
mod delivery;
mod requests;
mod sender;
mod service;
mod signature;
mod stored;
mod webhook;

#[cfg(test)]
mod tests;

pub use delivery::{Attempt, Delivery, DeliveryStatus};
#[cfg(test)]
pub use service::Render;
pub use service::{Options, Webhooks};
pub use signature::WebhookSecret;
#[cfg(test)]
pub use webhook::{DisabledWhy, Progress, Webhook};
pub use webhook::{
    FILTERS_MAX, Filter, LastDelivery, NewWebhook, Target, URL_MAX, WebhookChange, WebhookError, WebhookState,
};
