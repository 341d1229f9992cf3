//! From events to deliveries.

use futures_util::FutureExt;

use super::*;
use crate::capture::PENDING_MAX;
use store::StoreError;

#[tokio::test]
async fn a_webhook_gets_matching_events_from_its_creation_on() {
    let bench = Bench::new();
    bench.happen(EventType::SessionClaimed, 40);
    let [some, all] = [bench.make(&["session.claimed"]).await, bench.make(&[]).await];
    bench.happen(EventType::SessionClaimed, 1);
    bench.happen(EventType::SessionReleased, 1);
    bench.happen(EventType::SessionClaimed, 1);
    bench.capture();
    // The two previous numbers belong to the webhooks' own creation.
    assert_eq!(bench.captured(some), [42, 44]);
    assert_eq!(bench.captured(all), [41, 42, 43, 44], "its own making is the first");
    let first = &bench.webhooks.deliveries(&acme(), all, Some(DeliveryStatus::Pending)).unwrap()[3];
    assert_eq!((&*first.body, first.status), (first.event.to_string().as_bytes(), DeliveryStatus::Pending));
    bench.capture();
    assert_eq!(bench.captured(all).len(), 4, "each once");
}

#[tokio::test]
async fn whenever_the_server_dies_an_event_is_captured_once() {
    let bench = Bench::new();
    let id = bench.make(&["session.*"]).await;
    bench.happen(EventType::SessionClaimed, 3);
    bench.store.hold();
    bench.capture();
    let lost = bench.crashed();
    assert_eq!((lost.captured(id), lost.webhooks.pending()), (vec![], 0));
    lost.capture();
    assert_eq!(lost.captured(id), [1, 2, 3]);
    bench.store.release();
    let kept = bench.crashed();
    kept.happen(EventType::SessionReleased, 1);
    kept.capture();
    assert_eq!((kept.captured(id), kept.webhooks.pending()), (vec![1, 2, 3, 4], 4));
    let order: Vec<_> = std::iter::repeat_with(|| kept.due(1))
        .map_while(|jobs| {
            let job = jobs.into_iter().next()?;
            let number = kept.webhooks.delivery(&acme(), id, job.delivery).unwrap().event.number;
            kept.settle(&job, Outcome::Delivered);
            Some(number)
        })
        .collect();
    assert_eq!(order, [1, 2, 3, 4], "in the order of the events, also after a start");
}

#[tokio::test]
async fn skipped_events_are_not_stored_one_by_one() {
    let bench = Bench::new();
    let id = bench.make(&["session.claimed"]).await;
    let floor = bench.webhooks.floor(&acme());
    bench.happen(EventType::SessionReleased, 100);
    let before = bench.store.handed_in();
    bench.capture();
    assert_eq!((bench.store.handed_in(), bench.webhooks.floor(&acme())), (before, floor));
    bench.happen(EventType::SessionReleased, 1_000);
    bench.capture();
    assert!(bench.webhooks.floor(&acme()) > floor, "now and then it is");
    bench.happen(EventType::SessionClaimed, 1);
    bench.capture();
    assert_eq!(bench.captured(id), [1_101]);
    assert_eq!(bench.webhooks.floor(&acme()), Some(1_102));
}

#[tokio::test]
async fn an_outbox_that_is_full_waits_and_loses_nothing() {
    let bench = Bench::new();
    let id = bench.make(&["session.claimed"]).await;
    let most = u64::from(PENDING_MAX);
    bench.happen(EventType::SessionClaimed, PENDING_MAX as usize + 50);
    bench.capture();
    assert_eq!((bench.webhooks.pending(), bench.webhooks.floor(&acme())), (most, Some(most + 1)));
    for _ in 0..30 {
        let jobs = bench.due(1);
        bench.settle(&jobs[0], Outcome::Delivered);
    }
    bench.capture();
    assert_eq!((bench.webhooks.pending(), bench.webhooks.floor(&acme())), (most, Some(most + 31)));
    let numbers = bench.captured(id);
    assert!(numbers.into_iter().eq(1..=most + 30), "none is missing and none is there twice");
}

#[tokio::test]
async fn events_that_are_dropped_before_they_are_captured_are_counted() {
    let bench = Bench::new();
    let id = bench.make(&["session.claimed"]).await;
    bench.set_enabled(id, false).await;
    assert_eq!(bench.webhooks.floor(&acme()), None, "one that is disabled keeps nothing from going");
    bench.happen(EventType::SessionClaimed, 100);
    let mut batch = Batch::default();
    batch.put(b"EF/acme", 64_u64.to_be_bytes());
    bench.store.commit(batch).unwrap();
    bench.set_enabled(id, true).await;
    bench.capture();
    let shown = bench.shown(id);
    assert_eq!(shown.progress.missed, 64 - 1 + 1, "since it had looked at none");
    assert!(bench.captured(id).into_iter().eq(64..102), "from there on none is missing");
    assert_eq!(bench.crashed().shown(id), shown);
}

#[tokio::test(start_paused = true)]
async fn a_refused_capture_is_repeated_when_the_store_takes_writes_again_without_a_new_event() {
    let bench = Bench::new();
    let id = bench.make(&["session.claimed"]).await;
    bench.happen(EventType::SessionClaimed, 1);
    bench.store.refuse_with(Some(StoreError::Overloaded));
    let webhooks = bench.webhooks.clone();
    let capturing = tokio::spawn(async move { webhooks.keep_capturing().await });
    // By now the store has refused several times, and only the timer can wake the capture.
    tokio::time::sleep(Duration::from_secs(60)).await;
    bench.store.refuse_with(None);
    let captured = async {
        while bench.captured(id).is_empty() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(600), captured).await.unwrap();
    capturing.abort();
}

#[tokio::test(start_paused = true)]
async fn an_organization_whose_events_cannot_be_read_holds_up_no_other() {
    let bench = Bench::new();
    bench.make(&[]).await;
    let other = Identifier::parse("beta").unwrap();
    let mut batch = Batch::default();
    batch.put(b"EF/acme", b"?");
    bench.store.commit(batch).unwrap();
    let id = bench.make_in(&other, &["session.claimed"]).await;
    let webhooks = bench.webhooks.clone();
    let capturing = tokio::spawn(async move { webhooks.keep_capturing().await });
    // By now the first organization's events are known to be unreadable.
    tokio::time::sleep(Duration::from_secs(1)).await;
    bench.happen_in(&other, EventType::SessionClaimed, 1);
    let captured = async {
        while bench.webhooks.deliveries(&other, id, None).unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(1), captured).await.unwrap();
    capturing.abort();
}

#[tokio::test(start_paused = true)]
async fn a_webhook_enabled_by_a_request_that_was_dropped_captures_all_the_same() {
    let bench = Bench::new();
    let id = bench.make(&["session.claimed"]).await;
    bench.set_enabled(id, false).await;
    let webhooks = bench.webhooks.clone();
    let capturing = tokio::spawn(async move { webhooks.keep_capturing().await });
    // By now the capture waits until a webhook is enabled.
    tokio::time::sleep(Duration::from_secs(1)).await;
    bench.store.hold();
    assert!(bench.set_enabled(id, true).now_or_never().is_none(), "it waits for the disk, and is given up");
    bench.store.release();
    bench.happen(EventType::SessionClaimed, 1);
    let captured = async {
        while bench.captured(id).is_empty() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(600), captured).await.unwrap();
    capturing.abort();
}
