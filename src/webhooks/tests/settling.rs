//! The order of deliveries, and the consequences of an attempt.

use super::*;
use crate::delivery::FINISHED_KEPT;
use store::StoreError;

#[tokio::test]
async fn a_failed_delivery_is_retried_when_it_is_due_and_holds_up_no_other() {
    let bench = Bench::new();
    let id = bench.make(&["session.claimed"]).await;
    bench.happen(EventType::SessionClaimed, 3);
    bench.capture();
    let first = bench.due(1);
    assert_eq!(bench.settle(&first[0], FAILED), DeliveryStatus::Pending);
    let next = bench.due(8);
    assert_eq!(next.len(), 1, "one that fails is sent to one at a time");
    assert_ne!(next[0].delivery, first[0].delivery);
    assert_eq!(bench.settle(&next[0], Outcome::Delivered), DeliveryStatus::Delivered);
    let last = bench.due(8);
    assert_eq!(bench.settle(&last[0], Outcome::Delivered), DeliveryStatus::Delivered);
    assert!(bench.due(8).is_empty(), "the first is not due yet");
    bench.pass(59_999);
    assert!(bench.due(8).is_empty());
    bench.pass(15_001);
    let again = bench.due(8);
    assert_eq!((again.len(), again[0].delivery), (1, first[0].delivery));
    bench.settle(&again[0], Outcome::Delivered);
    assert_eq!(bench.shown(id).progress.pending, 0);
}

#[tokio::test]
async fn a_clock_that_is_set_back_puts_nothing_off_for_longer_than_the_longest_wait() {
    let bench = Bench::new();
    bench.pass(1_000 * HOUR_MILLIS);
    bench.make(&["session.claimed"]).await;
    bench.happen(EventType::SessionClaimed, 1);
    bench.capture();
    let job = bench.due(1);
    bench.settle(&job[0], FAILED);
    bench.pass(-HOUR_MILLIS / 2);
    assert!(bench.due(1).is_empty(), "it may be that its receiver asked for that much");
    bench.pass(-900 * HOUR_MILLIS);
    for bench in [bench.crashed(), bench] {
        let again = bench.due(1);
        assert_eq!((again.len(), again[0].delivery), (1, job[0].delivery));
    }
}

#[tokio::test]
async fn a_working_receiver_gets_several_deliveries_at_once_in_order_within_the_limit_for_all() {
    let bench = Bench::new();
    let ids = [
        bench.make(&["session.claimed"]).await,
        bench.make(&["session.claimed"]).await,
        bench.make(&["session.claimed"]).await,
    ];
    bench.happen(EventType::SessionClaimed, 10);
    bench.capture();
    let jobs = bench.due(8);
    let of = |id| jobs.iter().filter(|job| job.webhook.id == id).map(|job| job.delivery).collect::<Vec<_>>();
    assert_eq!(jobs.len(), 8);
    for id in ids {
        assert!((2..=3).contains(&of(id).len()), "each has its share");
        assert!(of(id).is_sorted());
    }
    assert_eq!(bench.due(100).len(), 4, "four at once to each");
}

#[tokio::test]
async fn slow_receivers_of_one_organization_do_not_delay_the_deliveries_of_another() {
    let bench = Bench::new();
    let beta = Identifier::parse("beta").unwrap();
    for _ in 0..8 {
        bench.make(&["session.claimed"]).await;
    }
    bench.make_in(&beta, &["session.claimed"]).await;
    bench.happen(EventType::SessionClaimed, 10);
    bench.capture();
    let mut slow = bench.due(usize::MAX);
    assert_eq!(slow.len(), 14, "two of the sixteen senders are kept for others");
    bench.happen_in(&beta, EventType::SessionClaimed, 3);
    bench.webhooks.inner.capture(&beta).unwrap();
    let organizations = |jobs: &[Job]| jobs.iter().map(|job| job.webhook.organization.clone()).collect::<Vec<_>>();
    let of_beta = bench.due(usize::MAX);
    assert_eq!(
        organizations(&of_beta),
        std::slice::from_ref(&beta),
        "at once; the last sender is for a third organization"
    );
    slow.truncate(13);
    let next = bench.due(usize::MAX);
    assert_eq!(organizations(&next), [beta], "whoever has fewer goes first");
}

#[tokio::test]
async fn after_the_last_attempt_a_delivery_is_given_up_and_a_webhook_that_fails_for_too_long_is_disabled() {
    let bench = Bench::new();
    let id = bench.make(&["session.claimed"]).await;
    for round in 0..2 {
        bench.happen(EventType::SessionClaimed, 1);
        bench.capture();
        for expected in [DeliveryStatus::Pending, DeliveryStatus::Pending, DeliveryStatus::Failed] {
            assert!(bench.shown(id).webhook.is_enabled(), "it may have been only that one");
            let jobs = bench.due(8);
            assert_eq!(jobs.len(), 1);
            if round == 1 && expected == DeliveryStatus::Failed {
                bench.happen(EventType::SessionClaimed, 1);
                bench.capture();
            }
            assert_eq!(bench.settle(&jobs[0], FAILED), expected);
            bench.pass(HOUR_MILLIS);
        }
        assert_eq!(bench.shown(id).progress.failing_since, Some(Timestamp::from_millis(1_000)));
    }
    let disabled = bench.shown(id);
    assert_eq!(disabled.webhook.disabled.map(|disabled| disabled.why), Some(DisabledWhy::Failing));
    assert_eq!(bench.event_types().last(), Some(&EventType::WebhookDisabled));
    assert!(bench.due(8).is_empty(), "nothing more is sent");
    assert_eq!(disabled.progress.pending, 1, "and nothing is forgotten");
    let again = bench.crashed();
    assert!(again.due(8).is_empty());
    again.set_enabled(id, true).await;
    assert_eq!(again.due(8).len(), 1);
    assert_eq!(again.shown(id).progress.failing_since, None, "it has all the time again");
}

#[tokio::test]
async fn a_webhook_whose_receiver_is_gone_is_disabled_in_the_same_batch() {
    let bench = Bench::new();
    let id = bench.make(&["session.claimed"]).await;
    bench.happen(EventType::SessionClaimed, 2);
    bench.capture();
    let job = bench.due(1);
    bench.store.hold();
    assert_eq!(bench.settle(&job[0], Outcome::Gone), DeliveryStatus::Pending, "nobody is shown what may be lost");
    let lost = bench.crashed();
    assert!(lost.shown(id).webhook.is_enabled());
    assert_eq!(lost.due(8).len(), 2, "it is sent again");
    bench.store.release();
    let kept = bench.crashed();
    assert_eq!(kept.shown(id).webhook.disabled.map(|disabled| disabled.why), Some(DisabledWhy::Gone));
    assert_eq!(kept.event_types().last(), Some(&EventType::WebhookDisabled));
    assert!(kept.due(8).is_empty());
}

#[tokio::test]
async fn a_410_of_a_receiver_that_was_replaced_meanwhile_does_not_disable_the_new_one() {
    let bench = Bench::new();
    let id = bench.make(&["session.claimed"]).await;
    bench.happen(EventType::SessionClaimed, 2);
    bench.capture();
    let jobs = bench.due(2);
    assert_eq!(bench.settle(&jobs[0], FAILED), DeliveryStatus::Pending);
    let target = Some(Target::parse("https://another.invalid/hook").unwrap());
    let change = WebhookChange { target, ..WebhookChange::default() };
    let changed = bench.webhooks.update(&acme(), id, change, &ana()).await.unwrap();
    assert_eq!(changed.progress.failing_since, None, "the new one has all the time");
    assert_eq!(bench.settle(&jobs[1], Outcome::Gone), DeliveryStatus::Pending);
    assert!(bench.shown(id).webhook.is_enabled());
    bench.pass(HOUR_MILLIS);
    let again = bench.due(1);
    assert_eq!(again[0].webhook.target, changed.webhook.target);
    assert_eq!(bench.settle(&again[0], Outcome::Gone), DeliveryStatus::Failed);
    assert!(!bench.shown(id).webhook.is_enabled());
}

#[tokio::test]
async fn an_attempt_that_the_store_refuses_is_repeated() {
    let bench = Bench::new();
    let id = bench.make(&["session.claimed"]).await;
    bench.happen(EventType::SessionClaimed, 1);
    bench.capture();
    let job = bench.due(1);
    bench.store.refuse_with(Some(StoreError::Overloaded));
    assert_eq!(bench.settle(&job[0], Outcome::Delivered), DeliveryStatus::Pending);
    bench.store.refuse_with(None);
    assert!(bench.due(1).is_empty(), "not at once");
    bench.pass(10_000);
    let again = bench.due(1);
    assert_eq!(again[0].delivery, job[0].delivery);
    assert_eq!(bench.settle(&again[0], Outcome::Delivered), DeliveryStatus::Delivered);
    assert_eq!(bench.shown(id).progress.pending, 0);
}

#[tokio::test]
async fn nothing_is_sent_while_the_store_refuses_writes() {
    let bench = Bench::new();
    bench.make(&["session.claimed"]).await;
    bench.happen(EventType::SessionClaimed, 1);
    bench.capture();
    bench.store.refuse_with(Some(StoreError::Overloaded));
    assert!(bench.due(8).is_empty());
    bench.store.refuse_with(None);
    assert_eq!(bench.due(8).len(), 1);
}

#[tokio::test]
async fn the_newest_ended_deliveries_are_kept() {
    let bench = Bench::new();
    let id = bench.make(&["session.claimed"]).await;
    bench.happen(EventType::SessionClaimed, FINISHED_KEPT + 7);
    bench.capture();
    loop {
        let jobs = bench.due(8);
        if jobs.is_empty() {
            break;
        }
        jobs.iter().for_each(|job| _ = bench.settle(job, Outcome::Delivered));
    }
    assert!(bench.captured(id).into_iter().eq(8..=FINISHED_KEPT as u64 + 7));
    assert_eq!(bench.crashed().captured(id).len(), FINISHED_KEPT);
}

#[tokio::test]
async fn an_attempt_for_a_deleted_webhook_is_ignored() {
    let bench = Bench::new();
    let id = bench.make(&[]).await;
    bench.happen(EventType::SessionClaimed, 2);
    bench.capture();
    let job = bench.due(1);
    let delivery = bench.webhooks.delivery(&acme(), id, job[0].delivery).unwrap();
    bench.webhooks.delete(&acme(), id, &ana()).await.unwrap();
    let attempt = Attempt { at: Timestamp::from_millis(1), millis: 1, code: None, error: None, excerpt: String::new() };
    bench.webhooks.inner.settle(&job[0].webhook, delivery, Sent { attempt, outcome: Outcome::Delivered, reason: None });
    for prefix in ["wh/", "wc/", "wd/", "se/"] {
        let left = bench.store.scan(prefix.as_bytes(), &end_of_prefix(prefix.as_bytes()), 1).unwrap();
        assert!(left.is_empty(), "{prefix} has something left");
    }
    assert_eq!(bench.event_types().last(), Some(&EventType::WebhookDeleted));
    assert!(bench.crashed().webhooks.list(&acme()).unwrap().is_empty());
}

#[tokio::test]
async fn failures_of_the_server_delay_only_the_organization_that_they_happen_to() {
    let bench = Bench::new();
    let inner = &bench.webhooks.inner;
    for _ in 0..20 {
        inner.own_failure(&acme());
    }
    let other = Identifier::parse("beta").unwrap();
    assert!(
        inner.own_failure(&acme()) >= Duration::from_secs(60) && inner.own_failure(&other) <= Duration::from_secs(10)
    );
}

#[tokio::test]
async fn a_store_that_refuses_is_looked_at_with_growing_pauses() {
    let bench = Bench::new();
    bench.store.refuse_with(Some(StoreError::Overloaded));
    let waits: Vec<_> = (0..10).map(|_| bench.webhooks.inner.take_due(usize::MAX).1).collect();
    assert!(waits[0] <= Duration::from_secs(10) && waits[9] >= Duration::from_secs(60), "{waits:?}");
}
