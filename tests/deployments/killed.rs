//! The server is killed repeatedly during deployments: at no moment does an environment have two at a time.

use serde_json::json;

use crate::site::{Site, id, is_finished, stage_with};
use crate::support::at;

const ENVIRONMENTS: usize = 6;
const KILLS: usize = 8;

/// Fails if the last deployment here is still running, or a process that it has started in a separate session.
const STEP: &str = "
    for old in $(cat $TRACE.$LOCKKEEPER_ENVIRONMENT.* 2>/dev/null); do
        if [ -d /proc/$old ] && grep -qv ' Z ' /proc/$old/stat 2>/dev/null; then echo $LOCKKEEPER_ENVIRONMENT $old >> $TRACE.overlap; fi
    done
    echo $$ > $TRACE.$LOCKKEEPER_ENVIRONMENT.main
    setsid sh -c 'echo $$ > $TRACE.$LOCKKEEPER_ENVIRONMENT.child; exec sleep 600' </dev/null >/dev/null 2>&1 &
    sleep 0.1
";

#[tokio::test]
async fn however_often_the_server_is_killed_no_environment_has_two_deployments_at_once() {
    let idempotent = |again: bool| json!({ "idempotent": again });
    let stages = json!([stage_with("one", STEP, idempotent(true)), stage_with("two", STEP, idempotent(false))]);
    let mut site = Site::with(stages).await;
    let mut sessions = Vec::new();
    for number in 0..ENVIRONMENTS {
        let name = format!("killed-{number}");
        site.admin.put(&at(&name), json!({})).await.created();
        let session = site.admin.claim(&name, json!({})).await.created().session();
        sessions.push((name, session));
    }
    let mut made = Vec::new();
    for kill in 0..KILLS {
        for (name, session) in &sessions {
            made.push(id(&site.admin.deploy(name, session, json!({ "commitId": "c0ffee1" })).await.has_status(202)));
        }
        // The moment differs each time: some have ended, the others are at any point.
        let newest = &made[made.len() - ENVIRONMENTS..];
        for deployment in &newest[..kill % ENVIRONMENTS] {
            site.admin.until(&format!("/deployments/{deployment}"), is_finished).await;
        }
        site.server.kill();
        site.start_again();
    }
    let (mut succeeded, mut interrupted) = (0, 0);
    for deployment in &made {
        let found = site.admin.until(&format!("/deployments/{deployment}"), is_finished).await;
        match found["error"].as_str() {
            None => {
                assert_eq!(found["status"], "succeeded", "{found:#}");
                succeeded += 1;
            }
            Some(error) => {
                assert!(error.starts_with("interrupted: "), "{found:#}");
                interrupted += 1;
            }
        }
    }
    println!("{KILLS} kills, {succeeded} deployments succeeded, {interrupted} were interrupted");
    let overlaps = std::fs::read_to_string(site.trace.with_extension("overlap")).unwrap_or_default();
    assert_eq!(overlaps, "", "two were there at once");
}
