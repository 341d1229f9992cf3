//! The past: the history of a period, and the utilisation of environments.

use serde_json::{Value, json};

use super::{LIST, names};
use crate::support::{Client, Server, assert_fields, at};

#[tokio::test]
async fn the_history_of_a_period_has_the_sessions_that_had_the_lock_in_it() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let (first, second, third) = (used(&ana).await, used(&ana).await, used(&ana).await);
    let history = |query: String| {
        let ana = ana.clone();
        async move {
            let found = ana.get(&format!("{}/history?{query}", at("review-1"))).await.ok();
            let ids: Vec<_> = found.data().as_array().unwrap().iter().map(|item| item["sessionId"].clone()).collect();
            (ids, found.json()["pagination"]["total"].clone())
        }
    };
    let id = |session: &Value| session["sessionId"].clone();
    let time = |session: &Value, field: &str| session[field].as_str().unwrap().to_owned();
    let all = vec![id(&third), id(&second), id(&first)];
    assert_eq!(history("from=2020-01-01T00:00:00Z".to_owned()).await, (all.clone(), json!(3)));
    assert_eq!(history("to=2120-01-01T00:00:00Z&limit=2&page=2".to_owned()).await, (all[2..].to_vec(), json!(3)));
    let (from, to) = (time(&second, "claimedAt"), time(&third, "claimedAt"));
    let (found, _) = history(format!("from={from}&to={to}")).await;
    assert!(found.contains(&id(&second)) && !found.contains(&id(&third)), "{found:?}");
    assert_eq!(history("to=2020-01-01T00:00:00Z".to_owned()).await, (vec![], json!(0)));
    for (query, field) in [
        ("from=yesterday", "from"),
        ("to=2027-13-01T00:00:00Z", "to"),
        ("from=2027-01-02T00:00:00Z&to=2027-01-01T00:00:00Z", "from"),
    ] {
        let refused = ana.get(&format!("{}/history?{query}", at("review-1"))).await.refused(400, "invalid_parameter");
        assert_eq!(refused.faulty_fields(), [field], "{query}");
    }
}

#[tokio::test]
async fn utilisation_has_every_environment_and_who_held_them() {
    let server = Server::start();
    let (ana, vic) = (server.as_user("ana").await, server.as_user("vic").await);
    used(&ana).await;
    let held = ana.claim("review-2", json!({})).await.created().data();
    let report = vic.get("/utilisation").await.ok().data();
    assert_fields(&report, "from to bucketSeconds environments waitsPerBucket holders truncated");
    assert_eq!((&report["bucketSeconds"], &report["truncated"]), (&json!(3600), &json!(false)));
    assert_eq!(report["waitsPerBucket"].as_array().unwrap().len(), 24, "the last day, by the hour");
    let environments = report["environments"].as_array().unwrap();
    let sessions = |environment: &Value| (environment["envName"].clone(), environment["sessions"].clone());
    let of_web = environments.iter().filter(|environment| environment["pipelineId"] == "web");
    let expected = [("review-1", 1), ("review-2", 1), ("review-3", 0)];
    assert_eq!(of_web.map(sessions).collect::<Vec<_>>(), expected.map(|(name, count)| (json!(name), json!(count))));
    assert!(environments.iter().any(|environment| environment["pipelineId"] == "shop"));
    for environment in environments {
        assert_fields(environment, "pipelineId envName sessions lockedSeconds busy waits busySecondsPerBucket");
        assert_eq!(environment["busySecondsPerBucket"].as_array().unwrap().len(), 24);
        let nobody = json!({ "count": 0, "medianSeconds": null, "p90Seconds": null, "maxSeconds": null });
        assert_eq!(environment["waits"], nobody);
    }
    let holders = report["holders"].as_array().unwrap();
    assert_eq!((holders.len(), &holders[0]["user"], &holders[0]["sessions"]), (1, &held["user"], &json!(2)));

    let of_shop = vic.get("/utilisation?pipelineId=shop").await.ok();
    assert!(of_shop.data()["environments"].as_array().unwrap().iter().all(|used| used["pipelineId"] == "shop"));
    assert_eq!(of_shop.data()["holders"], json!([]));
    assert_eq!(names(&vic.get(LIST).await.ok()).len(), 3, "reading it changes nothing");
}

#[tokio::test]
async fn a_report_is_of_a_month_at_most_and_not_of_the_future() {
    let server = Server::start();
    let vic = server.as_user("vic").await;
    let ask = |from: &str, to: &str| {
        let (vic, path) = (vic.clone(), format!("/utilisation?from={from}&to={to}"));
        async move { vic.get(&path).await }
    };
    for (from, to, bucket, buckets) in [
        ("2025-03-01T00:00:00Z", "2025-03-03T00:00:00Z", 3_600, 48),
        ("2025-03-01T00:00:00Z", "2025-03-08T00:00:00Z", 21_600, 28),
        ("2025-03-01T00:00:00%2B01:00", "2025-04-01T00:00:00%2B01:00", 86_400, 31),
    ] {
        let report = ask(from, to).await.ok().data();
        let count = report["waitsPerBucket"].as_array().unwrap().len();
        assert_eq!((&report["bucketSeconds"], count), (&json!(bucket), buckets), "{from} to {to}");
    }
    for (from, to) in [
        ("2025-03-01T00:00:00Z", "2025-04-01T00:00:01Z"),
        ("2025-03-02T00:00:00Z", "2025-03-01T00:00:00Z"),
        ("2120-03-01T00:00:00Z", "2120-03-02T00:00:00Z"),
        ("-009999-01-02T01:59:59Z", "2025-03-01T00:00:00Z"),
    ] {
        assert_eq!(ask(from, to).await.refused(400, "invalid_parameter").faulty_fields(), ["from"], "{from} to {to}");
    }
}

/// A session of review-1 that has ended.
async fn used(client: &Client) -> Value {
    let session = client.claim("review-1", json!({})).await.created().session();
    client.release("review-1", &session).await.ok().data()
}
