//! Redeliveries on request, and new secrets.

use super::*;
use store::StoreError;

async fn again(bench: &Bench, id: WebhookId, delivery: DeliveryId) -> Result<Delivery, WebhookError> {
    bench.webhooks.redeliver(&acme(), id, delivery, |_, _| ()).await
}

#[tokio::test]
async fn every_delivery_can_be_redelivered_whatever_its_status() {
    let bench = Bench::new();
    let id = bench.make(&["session.claimed"]).await;
    bench.happen(EventType::SessionClaimed, 1);
    bench.capture();
    for outcome in [Outcome::Delivered, FAILED, FAILED] {
        let job = bench.due(1);
        bench.settle(&job[0], outcome);
        let asked = again(&bench, id, job[0].delivery).await.unwrap();
        assert_eq!((asked.status, asked.tries), (DeliveryStatus::Pending, 0));
        assert_eq!(bench.shown(id).progress.pending, 1);
    }
    let job = bench.crashed().due(1);
    assert_eq!(job.len(), 1, "also after a start");
    let job = bench.due(1);
    assert_eq!(
        again(&bench, id, job[0].delivery).await.unwrap().attempts.len(),
        3,
        "one that is being sent is left alone"
    );
    assert!(bench.due(1).is_empty());
    bench.settle(&job[0], Outcome::Delivered);
    assert_eq!(bench.shown(id).progress.pending, 0);
}

#[tokio::test]
async fn a_redelivery_that_the_store_refuses_changes_nothing() {
    let bench = Bench::new();
    let id = bench.make(&["session.claimed"]).await;
    bench.happen(EventType::SessionClaimed, 1);
    bench.capture();
    let job = bench.due(1);
    bench.settle(&job[0], Outcome::Delivered);
    bench.store.refuse_with(Some(StoreError::Overloaded));
    let refused = again(&bench, id, job[0].delivery).await;
    assert!(matches!(refused, Err(WebhookError::Store(StoreError::Overloaded))), "{refused:?}");
    bench.store.refuse_with(None);
    assert!(bench.due(1).is_empty());
    again(&bench, id, job[0].delivery).await.unwrap();
    assert_eq!(bench.due(1).len(), 1);
    let unknown = again(&bench, id, DeliveryId(IdSeed([9; 12]))).await;
    assert!(matches!(unknown, Err(WebhookError::DeliveryNotFound)), "{unknown:?}");
    bench.set_enabled(id, false).await;
    let disabled = again(&bench, id, job[0].delivery).await;
    assert!(matches!(disabled, Err(WebhookError::Disabled)), "{disabled:?}");
}

#[tokio::test]
async fn an_old_secret_signs_as_long_as_it_was_given_and_then_goes() {
    let bench = Bench::new();
    let id = bench.make(&[]).await;
    let rotate = async |hours| {
        let (secret, grace) = (WebhookSecret::generate(), Duration::from_hours(hours));
        bench.webhooks.rotate_secret(&acme(), id, &secret, grace, &ana(), |_, _| ()).await.unwrap()
    };
    let signing = || bench.shown(id).webhook.signing(bench.webhooks.inner.now()).collect::<Vec<_>>();
    assert_eq!(signing(), [1]);
    rotate(1).await;
    assert_eq!(signing(), [2, 1]);
    bench.pass(HOUR_MILLIS);
    assert_eq!(signing(), [2]);
    rotate(1).await;
    assert_eq!(signing(), [3, 2]);
    let kept = bench.store.scan(b"se/", b"se0", 10).unwrap();
    assert_eq!(kept.len(), 2, "of three secrets the first is gone");
    rotate(0).await;
    assert_eq!(signing(), [4]);
}
