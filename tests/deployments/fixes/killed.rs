//! The server is killed between its action at the remote and recording it here.

use serde_json::json;

use super::contract::{Contract, created, exists, listed};
use super::harness::{Harness, branch, place};

/// The remote reports through one pipe that it has the branch, and waits at another before it lets the push end.
const HOLD: &str = "echo pushed > told; read go < wait; exit 0";

/// Waits until the remote has the branch, and kills the server before it knows.
async fn kill_when_pushed(harness: &mut Harness, analysis: &serde_json::Value) {
    harness.sh("mkfifo acme/shop.git/told acme/shop.git/wait");
    harness.hook("post-receive", HOLD);
    let (admin, path) = (harness.site.admin.clone(), place(analysis));
    let mut asking = tokio::spawn(async move {
        let request = admin.request(reqwest::Method::POST, &admin.path(&path)).json(&json!({}));
        admin.try_send(request).await
    });
    let told = harness.path("acme/shop.git/told");
    let listener = told.clone();
    let heard = tokio::task::spawn_blocking(move || std::fs::read_to_string(listener).unwrap());
    tokio::select! {
        heard = heard => assert_eq!(heard.unwrap(), "pushed\n"),
        answered = &mut asking => {
            // Releases the reader; otherwise the test would never end.
            std::fs::write(told, "").unwrap();
            panic!("it was answered before anything was pushed: {answered:?}");
        }
    }
    harness.site.server.kill();
    assert!(asking.await.unwrap().is_err(), "it was answered before it was done");
    harness.sh("echo go > acme/shop.git/wait; rm acme/shop.git/hooks/post-receive");
    harness.site.start_again();
}

#[tokio::test]
async fn a_branch_that_was_pushed_before_a_kill_is_known_again() {
    let Some(mut harness) = Harness::new().await else { return };
    let (analysis, main) = (harness.analysis().await, harness.git("rev-parse main"));
    kill_when_pushed(&mut harness, &analysis).await;
    let name = branch(&analysis);
    let pushed = harness.git(&format!("rev-parse {name}"));
    let made = harness.propose(&analysis, json!({})).await.created().data();
    assert_eq!(made["branch"], name);
    assert_eq!(harness.git(&format!("rev-parse {name}")), pushed, "nothing was pushed again");
    assert_eq!(harness.git(&format!("rev-parse {name}~1")), main);
    harness.site.server.kill();
    harness.site.start_again();
    assert_eq!(harness.propose(&analysis, json!({})).await.has_status(200).data(), made);
}

#[tokio::test]
async fn a_pull_request_that_was_made_before_a_kill_is_found_again() {
    let Some(mut harness) = Harness::new().await else { return };
    let contract = Contract::start(&harness, vec![exists(), listed()]).await;
    let analysis = harness.analysis().await;
    kill_when_pushed(&mut harness, &analysis).await;
    let made = harness.propose(&analysis, json!({})).await.created().data();
    assert_eq!((&made["number"], &made["url"]), (&created()["number"], &created()["html_url"]));
    let asked = contract.asked();
    let list =
        format!("/api/v3/repos/acme/shop/pulls?head=acme%3A{}&state=open", branch(&analysis).replace('/', "%2F"));
    let lines: Vec<_> = asked.iter().map(|request| (&*request.method, &*request.path)).collect();
    assert_eq!(lines, [("POST", "/api/v3/repos/acme/shop/pulls"), ("GET", &*list)]);
}
