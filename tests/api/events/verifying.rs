//! The chain after the server was killed under load, as the program itself verifies it.

use std::process::Output;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::{all_events, cycle, text};
use crate::support::waiting::until;
use crate::support::{Client, Server, at, lockkeeper};

pub fn verify(home: &std::path::Path, more: &[&str]) -> Output {
    let data = home.join("data");
    let mut arguments = vec!["audit", "verify", "--data-dir", data.to_str().unwrap()];
    arguments.extend(more);
    let mut command = lockkeeper(&arguments);
    command.env("LOCKKEEPER_STORAGE_LOG_SEGMENT_MB", "4").env("LOCKKEEPER_STORAGE_MIN_FREE_MB", "0");
    command.output().unwrap()
}

pub fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap() + &String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test]
async fn the_chain_verifies_after_every_kill_and_has_what_was_acknowledged() {
    const KILLS: usize = 5;
    let mut server = Server::start();
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let mut heads: Vec<String> = Vec::new();
    for _ in 0..KILLS {
        let (stop, stopped) = watch::channel(false);
        let before = acknowledged.lock().unwrap().len();
        let workers: Vec<_> = ["review-1", "review-2", "review-3"]
            .map(|environment| tokio::spawn(work(server.admin(), environment, acknowledged.clone(), stopped.clone())))
            .into();
        until("the workers go on", async || acknowledged.lock().unwrap().len() >= before + 40).await;
        server.kill();
        stop.send_replace(true);
        for worker in workers {
            worker.await.unwrap();
        }
        let expects: Vec<_> = heads.iter().flat_map(|head| ["--expect", head]).collect();
        let verified = verify(server.home(), &expects);
        let told = printed(&verified);
        assert_eq!(verified.status.code(), Some(0), "{told}");
        let line = told.lines().find(|line| line.starts_with("acme: ")).unwrap();
        assert!(line.contains("chain intact, head "), "{line}");
        heads.push(line.rsplit(' ').next().unwrap().to_owned());
        server.start_again();
    }
    let events = all_events(&server.admin(), "&type=session.claimed").await;
    let recorded: std::collections::BTreeSet<_> =
        events.iter().map(|event| text(event, "sessionId").to_owned()).collect();
    assert_eq!(recorded.len(), events.len(), "none is recorded twice");
    for session in acknowledged.lock().unwrap().iter() {
        assert!(recorded.contains(session), "{session} was acknowledged and left no event");
    }
}

async fn work(
    client: Client,
    environment: &'static str,
    acknowledged: Arc<Mutex<Vec<String>>>,
    stopped: watch::Receiver<bool>,
) {
    while !*stopped.borrow() {
        let claim = client.request(reqwest::Method::POST, &client.path(&format!("{}/force-claim", at(environment))));
        if let Ok(claimed) = client.try_send(claim.json(&json!({}))).await {
            acknowledged.lock().unwrap().push(claimed.created().session());
        }
    }
}

#[tokio::test]
async fn it_says_what_there_is_and_what_it_was_asked_for() {
    let mut server = Server::start();
    let admin = server.admin();
    cycle(&admin, "review-1").await;
    let events = all_events(&admin, "").await;
    // Through the operator's socket, since the server has the store locked.
    let running = verify(server.home(), &["--organization", "acme"]);
    assert_eq!(running.status.code(), Some(0), "{}", printed(&running));
    assert!(
        printed(&running).contains("acme: ") && printed(&running).contains("chain intact"),
        "{}",
        printed(&running)
    );
    let forged = verify(server.home(), &["--expect", &format!("0:{}", "0".repeat(64))]);
    assert_eq!(forged.status.code(), Some(1), "{}", printed(&forged));
    assert_eq!(verify(server.home(), &["--organization", "nobody"]).status.code(), Some(2));
    assert!(server.terminate().success());

    let last = events.last().unwrap();
    let head = format!("{}:{}", events.len() - 1, text(last, "hash"));
    let found = verify(server.home(), &[]);
    let expected = format!("acme: {} events, 0 … {}, chain intact, head {head}", events.len(), events.len() - 1);
    let told = String::from_utf8(found.stdout).unwrap();
    let [chain, seals] = told.lines().collect::<Vec<_>>()[..] else { panic!("{told}") };
    assert_eq!((found.status.code(), chain), (Some(0), expected.as_str()));
    let last_sealed = format!(" on, the last after event {}", events.len() - 1);
    assert!(seals.starts_with("acme: seals intact, made from event ") && seals.ends_with(&last_sealed), "{seals}");
    let found = verify(server.home(), &["--json", "--organization", "acme", "--expect", &head]);
    let mut told: Value = serde_json::from_slice(&found.stdout).unwrap();
    let seals = told["organizations"][0].as_object_mut().unwrap().remove("seals").unwrap();
    assert_eq!((&seals["status"], &seals["next"]), (&json!("checked"), &json!(events.len())));
    let noted = json!({ "number": events.len() - 1, "hash": last["hash"] });
    let mut there = noted.clone();
    there["found"] = json!("there");
    let organization = json!({ "organization": "acme", "events": events.len(), "first": 0, "intact": true, "head": noted,
                               "archived": 0, "fault": null, "expected": [there] });
    assert_eq!(told, json!({ "intact": true, "organizations": [organization] }));

    let by_id = format!("{}:{}", text(last, "eventId"), text(last, "hash"));
    let found = verify(server.home(), &["--expect", &by_id]);
    assert_eq!(found.status.code(), Some(0), "{}", printed(&found));
    assert!(printed(&found).contains(&format!("{head} is part of the chain")), "{}", printed(&found));

    let forged = format!("{}:{}", events.len() - 1, "0".repeat(64));
    let found = verify(server.home(), &["--expect", &forged]);
    assert_eq!(found.status.code(), Some(1));
    assert!(printed(&found).contains("is not part of the chain"), "{}", printed(&found));
    for bad in [&["--expect", "7"][..], &["--organization", "nobody"], &["--bad"], &["--expect"]] {
        assert_eq!(verify(server.home(), bad).status.code(), Some(2), "{bad:?}");
    }
    let empty = tempfile::tempdir().unwrap();
    std::fs::create_dir(empty.path().join("data")).unwrap();
    let nothing = verify(empty.path(), &[]);
    assert_eq!(nothing.status.code(), Some(2), "{}", printed(&nothing));
    assert!(printed(&nothing).contains("has no events: there is nothing to verify"), "{}", printed(&nothing));
    let nowhere = lockkeeper(&["audit", "verify", "--data-dir", "/nowhere/at/all"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2));
    server.start_again();
    assert_eq!(all_events(&server.admin(), "").await, events, "verifying changes nothing");
}
