//! Telling others what has happened: webhooks, the outbox of each, and the deliveries themselves.
//!
//! An event that a webhook wants becomes a delivery in the batch that moves the webhook's cursor past it, with all that is
//! to be sent; it is then sent until it has arrived or is given up. So nothing is lost or forgotten whenever the server
//! dies, and what was under way then is sent again under the same id. First attempts are made in the order of the events;
//! one that failed is tried again later and holds nobody up. How an event is rendered is the caller's business.

mod address;
mod asking;
mod capture;
mod changing;
mod client;
mod delivery;
mod filter;
mod line;
mod registry;
mod schedule;
mod sending;
mod signature;
mod stored;
mod target;
mod webhook;

#[cfg(test)]
mod tests;

pub use delivery::{Attempt, Delivery, DeliveryStatus};
pub use filter::{FILTERS_MAX, Filter};
pub use registry::{Clock, Options, Render, Webhooks};
pub use signature::WebhookSecret;
pub use target::{Target, URL_MAX};
pub use webhook::{
    DisabledWhy, LastDelivery, NewWebhook, Progress, Shown, WEBHOOKS_MAX, Webhook, WebhookChange, WebhookError,
};
