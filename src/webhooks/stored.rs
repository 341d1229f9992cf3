//! The stored forms of webhooks, their progress and their deliveries.

use serde::{Deserialize, Serialize};

use super::delivery::{Attempt, Delivery, DeliveryStatus};
use super::filter::Filter;
use super::target::Target;
use super::webhook::{Disabled, DisabledWhy, LastDelivery, PreviousSecret, Progress, Webhook};
use crate::domain::{DeliveryId, Description, EventType, IdSeed, Identifier, Malformed, Timestamp, WebhookId};
use crate::events::EventId;
use crate::store::StoreError;
use crate::store::record::{self, encode, records, stored_enum};

records! {
    WebhookV1<'a> = "webhook",
    ProgressV1 = "webhook progress",
    DeliveryV1<'a> = "webhook delivery",
}

const ID_BYTES: usize = 12;

pub const WEBHOOKS: &[u8] = b"wh/";
const PROGRESS: &[u8] = b"wc/";
const DELIVERIES: &[u8] = b"wd/";

/// What all webhooks of an organization begin with.
pub fn webhooks_of(organization: &Identifier) -> Vec<u8> {
    [WEBHOOKS, organization.as_str().as_bytes(), b"/"].concat()
}

/// `wh/{organization}/{webhook}`
pub fn webhook_key(organization: &Identifier, id: WebhookId) -> Vec<u8> {
    [&webhooks_of(organization), id.0.0.as_slice()].concat()
}

/// `wc/{organization}/{webhook}`
pub fn progress_key(organization: &Identifier, id: WebhookId) -> Vec<u8> {
    [PROGRESS, organization.as_str().as_bytes(), b"/", id.0.0.as_slice()].concat()
}

/// What all deliveries of a webhook begin with.
pub fn deliveries_of(organization: &Identifier, id: WebhookId) -> Vec<u8> {
    [DELIVERIES, organization.as_str().as_bytes(), b"/", id.0.0.as_slice(), b"/"].concat()
}

/// `wd/{organization}/{webhook}/{delivery, inverted}`: the newest comes first.
pub fn delivery_key(organization: &Identifier, id: WebhookId, delivery: DeliveryId) -> Vec<u8> {
    [&deliveries_of(organization, id), delivery.0.0.map(|byte| !byte).as_slice()].concat()
}

#[derive(Serialize, Deserialize)]
struct WebhookV1<'a> {
    url: &'a str,
    filters: Vec<String>,
    description: &'a str,
    disabled: Option<(i64, DisabledV1)>,
    secret: u32,
    previous: Option<(u32, i64)>,
    created_at: i64,
    updated_at: i64,
}

stored_enum!(DisabledV1, DisabledWhy { Asked, Gone, Failing });

#[derive(Serialize, Deserialize)]
struct ProgressV1 {
    cursor: u64,
    missed: u64,
    failing_since: Option<i64>,
    pending: u32,
    last: Option<LastV1>,
}

#[derive(Serialize, Deserialize)]
struct LastV1 {
    delivery: [u8; ID_BYTES],
    event_type: u16,
    at: i64,
    status: StatusV1,
    code: Option<u16>,
}

stored_enum!(StatusV1, DeliveryStatus { Pending, Delivered, Failed });

#[derive(Serialize, Deserialize)]
struct DeliveryV1<'a> {
    event: (u64, [u8; 4]),
    event_type: u16,
    body: &'a [u8],
    created_at: i64,
    status: StatusV1,
    tries: u32,
    #[serde(borrow)]
    attempts: Vec<AttemptV1<'a>>,
    next_attempt_at: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct AttemptV1<'a> {
    at: i64,
    millis: u32,
    code: Option<u16>,
    error: Option<&'a str>,
    excerpt: &'a str,
}

pub fn encode_webhook(webhook: &Webhook) -> Vec<u8> {
    encode(&WebhookV1 {
        url: webhook.target.as_str(),
        filters: webhook.filters.iter().map(Filter::to_string).collect(),
        description: webhook.description.as_str(),
        disabled: webhook.disabled.map(|disabled| (disabled.at.as_millis(), disabled.why.into())),
        secret: webhook.secret,
        previous: webhook.previous.map(|previous| (previous.number, previous.until.as_millis())),
        created_at: webhook.created_at.as_millis(),
        updated_at: webhook.updated_at.as_millis(),
    })
}

pub fn decode_webhook(key: &[u8], bytes: &[u8]) -> Result<Webhook, StoreError> {
    let form: WebhookV1<'_> = record::decode(bytes)?;
    let (organization, id) = parse_webhook_key(key).ok_or_else(record::misplaced::<WebhookV1<'_>>)?;
    Ok(form.into_webhook(organization, id).map_err(record::invalid::<WebhookV1<'_>>)?)
}

fn parse_webhook_key(key: &[u8]) -> Option<(Identifier, WebhookId)> {
    let (organization, id) = key.strip_prefix(WEBHOOKS)?.split_last_chunk::<ID_BYTES>()?;
    let organization = std::str::from_utf8(organization.strip_suffix(b"/")?).ok()?;
    Some((Identifier::parse(organization).ok()?, WebhookId(IdSeed(*id))))
}

impl WebhookV1<'_> {
    fn into_webhook(self, organization: Identifier, id: WebhookId) -> Result<Webhook, Malformed> {
        let at = Timestamp::from_millis;
        Ok(Webhook {
            organization,
            id,
            target: Target::parse(self.url)?,
            filters: self.filters.iter().map(|text| Filter::parse(text)).collect::<Result<_, _>>()?,
            description: Description::parse(self.description)?,
            disabled: self.disabled.map(|(disabled_at, why)| Disabled { at: at(disabled_at), why: why.into() }),
            secret: self.secret,
            previous: self.previous.map(|(number, until)| PreviousSecret { number, until: at(until) }),
            created_at: at(self.created_at),
            updated_at: at(self.updated_at),
        })
    }
}

pub fn encode_progress(progress: &Progress) -> Vec<u8> {
    encode(&ProgressV1 {
        cursor: progress.cursor,
        missed: progress.missed,
        failing_since: progress.failing_since.map(Timestamp::as_millis),
        pending: progress.pending,
        last: progress.last.as_ref().map(|last| LastV1 {
            delivery: last.delivery.0.0,
            event_type: last.event_type as u16,
            at: last.at.as_millis(),
            status: last.status.into(),
            code: last.code,
        }),
    })
}

pub fn decode_progress(bytes: &[u8]) -> Result<Progress, StoreError> {
    Ok(record::read::<ProgressV1, _>(bytes)?)
}

impl TryFrom<ProgressV1> for Progress {
    type Error = Malformed;

    fn try_from(form: ProgressV1) -> Result<Self, Malformed> {
        Ok(Self {
            cursor: form.cursor,
            missed: form.missed,
            failing_since: form.failing_since.map(Timestamp::from_millis),
            pending: form.pending,
            last: form.last.map(LastDelivery::try_from).transpose()?,
        })
    }
}

impl TryFrom<LastV1> for LastDelivery {
    type Error = Malformed;

    fn try_from(form: LastV1) -> Result<Self, Malformed> {
        Ok(Self {
            delivery: DeliveryId(IdSeed(form.delivery)),
            event_type: event_type_at(form.event_type)?,
            at: Timestamp::from_millis(form.at),
            status: form.status.into(),
            code: form.code,
        })
    }
}

pub fn encode_delivery(delivery: &Delivery) -> Vec<u8> {
    let attempts = delivery.attempts.iter().map(|attempt| AttemptV1 {
        at: attempt.at.as_millis(),
        millis: attempt.millis,
        code: attempt.code,
        error: attempt.error.as_deref(),
        excerpt: &attempt.excerpt,
    });
    encode(&DeliveryV1 {
        event: (delivery.event.number, delivery.event.check),
        event_type: delivery.event_type as u16,
        body: &delivery.body,
        created_at: delivery.created_at.as_millis(),
        status: delivery.status.into(),
        tries: delivery.tries,
        attempts: attempts.collect(),
        next_attempt_at: delivery.next_attempt_at.map(Timestamp::as_millis),
    })
}

pub fn decode_delivery(key: &[u8], bytes: &[u8]) -> Result<Delivery, StoreError> {
    let form: DeliveryV1<'_> = record::decode(bytes)?;
    let (_, inverted) = key.split_last_chunk::<ID_BYTES>().ok_or_else(record::misplaced::<DeliveryV1<'_>>)?;
    let attempts = form.attempts.into_iter().map(|attempt| Attempt {
        at: Timestamp::from_millis(attempt.at),
        millis: attempt.millis,
        code: attempt.code,
        error: attempt.error.map(str::to_owned),
        excerpt: attempt.excerpt.to_owned(),
    });
    Ok(Delivery {
        id: DeliveryId(IdSeed(inverted.map(|byte| !byte))),
        event: EventId { number: form.event.0, check: form.event.1 },
        event_type: event_type_at(form.event_type).map_err(record::invalid::<DeliveryV1<'_>>)?,
        body: form.body.to_vec(),
        created_at: Timestamp::from_millis(form.created_at),
        status: form.status.into(),
        tries: form.tries,
        attempts: attempts.collect(),
        next_attempt_at: form.next_attempt_at.map(Timestamp::from_millis),
    })
}

/// Notices are stored as their position in the list of all, which only grows.
fn event_type_at(position: u16) -> Result<EventType, Malformed> {
    EventType::ALL.get(usize::from(position)).copied().ok_or(Malformed("is an event type of a newer version"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::store::fixtures::{assert_written_as_format_4, format_4};

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
            body: b"{}".to_vec(),
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
}
