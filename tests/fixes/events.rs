//! What the journal has of analyses and fixes, after a kill.

use std::sync::Arc;

use lockkeeper::domain::{Data, Datum, Identifier, Notice};
use lockkeeper::events::{Events, Occurred};
use lockkeeper::store::{LoggedStore, Options};
use serde_json::json;

use crate::bench::{Bench, branch, place};

/// Everything that has happened in `acme`, read from the directory of a server that is gone.
fn journal(bench: &Bench) -> Vec<Occurred> {
    let options = Options { segment_bytes: 4 * 1024 * 1024, min_free_bytes: 0, ..Options::default() };
    let store = LoggedStore::open(&bench.site.server.data_dir(), options).unwrap();
    let events = Events::new(Arc::new(store));
    let acme = Identifier::parse("acme").unwrap();
    let mut happened: Vec<Occurred> = Vec::new();
    loop {
        let page = events.read(&acme, happened.len() as u64).unwrap();
        if page.is_empty() {
            return happened;
        }
        happened.extend(page);
    }
}

fn text(data: &Data, name: &str) -> String {
    match data.0.iter().find(|(known, _)| known == name) {
        Some((_, Datum::Text(text))) => text.to_string(),
        other => panic!("{name} is {other:?} in {data:?}"),
    }
}

#[tokio::test]
async fn what_was_found_and_what_was_proposed_are_told_of_with_who_asked_for_it() {
    let Some(mut bench) = Bench::new().await else { return };
    let deployment = bench.failed().await;
    let (ana, mia) = (bench.site.server.as_user("ana").await, bench.site.server.as_user("mia").await);
    let asked = ana.post(&format!("/deployments/{deployment}/analyses"), json!({ "waitSeconds": 60 })).await;
    let analysis = asked.has_status(200).data();
    let made = mia.post(&place(&analysis), json!({})).await.created();
    bench.site.server.kill();
    let happened = journal(&bench);
    let one = |notice: Notice| {
        let found: Vec<_> = happened.iter().filter(|event| event.notice == notice).collect();
        assert_eq!(found.len(), 1, "{happened:?}");
        found[0].clone()
    };
    let (found, proposed) = (one(Notice::AnalysisCompleted), one(Notice::PullRequestCreated));
    for (event, by) in [(&found, "ana"), (&proposed, "mia")] {
        let agent = event.by.as_ref().unwrap();
        assert_eq!(&*agent.person.name, by);
        assert!(agent.via.as_ref().is_some_and(|via| via.request.starts_with("req_")), "{agent:?}");
        assert_eq!(event.pipeline.as_ref().map(Identifier::as_str), Some("web"));
        assert_eq!(event.environment.as_ref().map(Identifier::as_str), Some("review-1"));
        assert_eq!(event.deployment.map(|id| id.to_string()), Some(deployment.clone()));
        assert_eq!(text(&event.data, "analysisId"), analysis["analysisId"].as_str().unwrap());
    }
    assert_eq!(text(&found.data, "category"), "missing_command");
    assert_eq!((text(&found.data, "status"), text(&found.data, "engine")), ("completed".into(), "builtin".into()));
    assert_eq!(text(&proposed.data, "branch"), branch(&analysis));
    assert_eq!(text(&proposed.data, "url"), made.data()["url"].as_str().unwrap());
    assert!(proposed.id > found.id);
}
