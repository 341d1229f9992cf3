//! Stored records are read back unchanged.

use proptest::prelude::*;

use super::*;
use crate::delivery::ATTEMPTS_KEPT;
use crate::stored;
use crate::webhook::{Disabled, PreviousSecret};
use events::EventId;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn sample() -> Webhook {
    Webhook {
        organization: acme(),
        // A slash must not end the id.
        id: WebhookId(IdSeed(*b"/a/b/c/d/e/f")),
        target: Target::parse("https://receiver.invalid/hook?a=b").unwrap(),
        filters: vec![Filter::parse("session.*").unwrap(), Filter::parse("stage.failed").unwrap()],
        description: Description::parse("chat").unwrap(),
        disabled: None,
        secret: 3,
        previous: None,
        created_at: at(1),
        updated_at: at(2),
    }
}

#[test]
fn a_webhook_reads_back() {
    let disabled = [DisabledWhy::Asked, DisabledWhy::Gone, DisabledWhy::Failing].map(Some).into_iter().chain([None]);
    for why in disabled {
        let webhook = Webhook {
            disabled: why.map(|why| Disabled { at: at(5), why }),
            previous: why.map(|_| PreviousSecret { number: 2, until: at(9) }),
            ..sample()
        };
        let key = stored::webhook_key(&acme(), webhook.id);
        assert_eq!(stored::decode_webhook(&key, &stored::encode_webhook(&webhook)).unwrap(), webhook);
    }
}

#[test]
fn progress_and_deliveries_read_back() {
    for status in DeliveryStatus::ALL {
        let delivery = DeliveryId(IdSeed([7; 12]));
        let last = LastDelivery { delivery, event_type: EventType::StageFailed, at: at(3), status, code: Some(500) };
        let progress =
            Progress { cursor: u64::MAX, missed: 2, failing_since: Some(at(4)), pending: 5, last: Some(last) };
        assert_eq!(stored::decode_progress(&stored::encode_progress(&progress)).unwrap(), progress);
        let mut delivery = Delivery {
            id: delivery,
            event: EventId { number: 8, check: [1, 2, 3, 4] },
            event_type: EventType::SessionClaimed,
            body: Arc::from(*b"{}"),
            created_at: at(1),
            status,
            tries: 0,
            attempts: Vec::new(),
            next_attempt_at: Some(at(9)),
        };
        for number in 0..ATTEMPTS_KEPT as u32 + 5 {
            let error = (number % 2 == 0).then(|| "no".to_owned());
            delivery.add(Attempt { at: at(1), millis: number, code: None, error, excerpt: "x".to_owned() });
        }
        assert_eq!((delivery.attempts.len(), delivery.attempts[0].millis, delivery.tries), (ATTEMPTS_KEPT, 5, 25));
        let key = stored::delivery_key(&acme(), sample().id, delivery.id);
        assert_eq!(stored::decode_delivery(&key, &stored::encode_delivery(&delivery)).unwrap(), delivery);
    }
}

proptest! {
    #[test]
    fn decoding_never_panics(key in prop::collection::vec(any::<u8>(), 0..60), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = stored::decode_webhook(&key, &bytes);
        let _ = stored::decode_progress(&bytes);
        let _ = stored::decode_delivery(&key, &bytes);
    }
}
