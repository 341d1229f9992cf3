//! The stored forms of webhooks, their progress and their deliveries.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::delivery::{Attempt, Delivery, DeliveryStatus};
use super::webhook::{Disabled, DisabledWhy, Filter, LastDelivery, PreviousSecret, Progress, Target, Webhook};
use domain::{DeliveryId, EventType, IdSeed, Identifier, Malformed, Timestamp, WebhookId};
use events::EventId;
use records::stored::{self, Stored, stored, stored_enum};
use store::StoreError;
use store::keys::{DELIVERIES, WEBHOOK_PROGRESS, WEBHOOKS, in_organization};
use store::record::{self, encode, records};

records! {
    WebhookV1<'a> = "webhook",
    ProgressV1<'a> = "webhook progress",
    DeliveryV1<'a> = "webhook delivery",
}

const ID_BYTES: usize = 12;

/// The prefix of all webhooks of an organization.
pub fn webhooks_of(organization: &Identifier) -> Vec<u8> {
    in_organization(WEBHOOKS, organization.as_str())
}

/// `wh/{organization}/{webhook}`
pub fn webhook_key(organization: &Identifier, id: WebhookId) -> Vec<u8> {
    [&webhooks_of(organization), id.0.0.as_slice()].concat()
}

/// `wc/{organization}/{webhook}`
pub fn progress_key(organization: &Identifier, id: WebhookId) -> Vec<u8> {
    [&in_organization(WEBHOOK_PROGRESS, organization.as_str()), id.0.0.as_slice()].concat()
}

/// The prefix of all deliveries of a webhook.
pub fn deliveries_of(organization: &Identifier, id: WebhookId) -> Vec<u8> {
    [&in_organization(DELIVERIES, organization.as_str()), id.0.0.as_slice(), b"/"].concat()
}

/// `wd/{organization}/{webhook}/{delivery, inverted}`: sorts newest first.
pub fn delivery_key(organization: &Identifier, id: WebhookId, delivery: DeliveryId) -> Vec<u8> {
    [&deliveries_of(organization, id), delivery.0.0.map(|byte| !byte).as_slice()].concat()
}

#[derive(Serialize, Deserialize)]
struct WebhookV1<'a> {
    url: &'a str,
    filters: Vec<String>,
    description: &'a str,
    #[serde(borrow)]
    disabled: Option<DisabledV1<'a>>,
    secret: u32,
    #[serde(borrow)]
    previous: Option<PreviousV1<'a>>,
    created_at: i64,
    updated_at: i64,
}

stored! { struct DisabledV1 of Disabled { at: Timestamp, why: DisabledWhy } }
stored_enum!(DisabledWhyV1 of DisabledWhy { Asked, Gone, Failing });
stored! { struct PreviousV1 of PreviousSecret { number: u32, until: Timestamp } }

stored! {
    struct ProgressV1 of Progress {
        cursor: u64,
        missed: u64,
        failing_since: Option<Timestamp>,
        pending: u32,
        last: Option<LastDelivery>,
    }
}

stored! {
    struct LastV1 of LastDelivery {
        delivery: DeliveryId,
        event_type: EventType,
        at: Timestamp,
        status: DeliveryStatus,
        code: Option<u16>,
    }
}

stored_enum!(StatusV1 of DeliveryStatus { Pending, Delivered, Failed });

stored! {
    struct DeliveryV1 of Delivery {
        event: EventId,
        event_type: EventType,
        body: Arc<[u8]>,
        created_at: Timestamp,
        status: DeliveryStatus,
        tries: u32,
        attempts: Vec<Attempt>,
        next_attempt_at: Option<Timestamp>,
    }
    // The id is in the key.
    not stored { id: DeliveryId(IdSeed([0; ID_BYTES])) }
}

stored! {
    struct AttemptV1 of Attempt { at: Timestamp, millis: u32, code: Option<u16>, error: Option<String>, excerpt: String }
}

pub fn encode_webhook(webhook: &Webhook) -> Vec<u8> {
    encode(&WebhookV1 {
        url: webhook.target.as_str(),
        filters: webhook.filters.iter().map(Filter::to_string).collect(),
        description: webhook.description.to_form(),
        disabled: webhook.disabled.to_form(),
        secret: webhook.secret,
        previous: webhook.previous.to_form(),
        created_at: webhook.created_at.to_form(),
        updated_at: webhook.updated_at.to_form(),
    })
}

pub fn decode_webhook(key: &[u8], bytes: &[u8]) -> Result<Webhook, StoreError> {
    let form: WebhookV1<'_> = record::decode(bytes)?;
    let (organization, id) = parse_webhook_key(key).ok_or_else(record::misplaced::<WebhookV1<'_>>)?;
    let webhook = || {
        Ok::<_, Malformed>(Webhook {
            organization,
            id,
            target: Target::parse(form.url)?,
            filters: form.filters.iter().map(|text| Filter::parse(text)).collect::<Result<_, _>>()?,
            description: Stored::from_form(form.description)?,
            disabled: Stored::from_form(form.disabled)?,
            secret: form.secret,
            previous: Stored::from_form(form.previous)?,
            created_at: Stored::from_form(form.created_at)?,
            updated_at: Stored::from_form(form.updated_at)?,
        })
    };
    Ok(webhook().map_err(record::invalid::<WebhookV1<'_>>)?)
}

fn parse_webhook_key(key: &[u8]) -> Option<(Identifier, WebhookId)> {
    let (organization, id) = key.strip_prefix(WEBHOOKS)?.split_last_chunk::<ID_BYTES>()?;
    let organization = std::str::from_utf8(organization.strip_suffix(b"/")?).ok()?;
    Some((Identifier::parse(organization).ok()?, WebhookId(IdSeed(*id))))
}

pub fn encode_progress(progress: &Progress) -> Vec<u8> {
    encode(&progress.to_form())
}

pub fn decode_progress(bytes: &[u8]) -> Result<Progress, StoreError> {
    Ok(stored::read(bytes)?)
}

pub fn encode_delivery(delivery: &Delivery) -> Vec<u8> {
    encode(&delivery.to_form())
}

pub fn decode_delivery(key: &[u8], bytes: &[u8]) -> Result<Delivery, StoreError> {
    let delivery = stored::read(bytes)?;
    let (_, inverted) = key.split_last_chunk::<ID_BYTES>().ok_or_else(record::misplaced::<DeliveryV1<'_>>)?;
    Ok(Delivery { id: DeliveryId(IdSeed(inverted.map(|byte| !byte))), ..delivery })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::Description;
    use testkit::format_4::{assert_written_as_format_4, format_4};
    use testkit::fuzz::fuzz_record;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(1_794_735_000_000 + second * 1_000)
    }

    #[test]
    fn webhooks_and_deliveries_of_format_4_are_read() {
        let (organization, id) = (Identifier::parse("acme").unwrap(), WebhookId(IdSeed([1; 12])));
        let webhook = Webhook {
            organization: organization.clone(),
            id,
            target: Target::parse("https://hooks.example/in").unwrap(),
            filters: ["session.*", "pipeline.stopped"].map(|text| Filter::parse(text).unwrap()).to_vec(),
            description: Description::parse("for the chat").unwrap(),
            disabled: Some(Disabled { at: at(3), why: DisabledWhy::Failing }),
            secret: 2,
            previous: Some(PreviousSecret { number: 1, until: at(4) }),
            created_at: at(1),
            updated_at: at(2),
        };
        assert_written_as_format_4("webhook", &encode_webhook(&webhook));
        assert_eq!(decode_webhook(&webhook_key(&organization, id), &format_4("webhook")).unwrap(), webhook);

        let delivery_id = DeliveryId(IdSeed([5; 12]));
        let last = LastDelivery {
            delivery: delivery_id,
            event_type: EventType::PullRequestCreated,
            at: at(5),
            status: DeliveryStatus::Failed,
            code: Some(500),
        };
        let progress = Progress { cursor: 70, missed: 3, failing_since: Some(at(1)), pending: 2, last: Some(last) };
        assert_written_as_format_4("webhook progress", &encode_progress(&progress));
        assert_eq!(decode_progress(&format_4("webhook progress")).unwrap(), progress);

        let attempt = Attempt {
            at: at(6),
            millis: 120,
            code: Some(500),
            error: Some("it was answered with status 500".to_owned()),
            excerpt: "oh no".to_owned(),
        };
        let delivery = Delivery {
            id: delivery_id,
            event: EventId { number: 69, check: [1, 2, 3, 4] },
            event_type: EventType::SessionClaimed,
            body: Arc::from(*b"{}"),
            created_at: at(5),
            status: DeliveryStatus::Pending,
            tries: 1,
            attempts: vec![attempt],
            next_attempt_at: Some(at(7)),
        };
        assert_written_as_format_4("webhook delivery", &encode_delivery(&delivery));
        let key = delivery_key(&organization, id, delivery_id);
        assert_eq!(decode_delivery(&key, &format_4("webhook delivery")).unwrap(), delivery);
    }

    #[test]
    fn fuzzed_webhooks_and_deliveries_are_read_or_refused() {
        let (organization, id) = (Identifier::parse("acme").unwrap(), WebhookId(IdSeed([1; 12])));
        let key = webhook_key(&organization, id);
        fuzz_record([format_4("webhook")], |bytes| decode_webhook(&key, bytes), encode_webhook);
        fuzz_record([format_4("webhook progress")], decode_progress, encode_progress);
        let key = delivery_key(&organization, id, DeliveryId(IdSeed([2; 12])));
        fuzz_record([format_4("webhook delivery")], |bytes| decode_delivery(&key, bytes), encode_delivery);
    }
}
