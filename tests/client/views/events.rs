//! `events`: listed with filters, and followed through a restart of the server.

use serde_json::{Value, json};

use super::{Detour, Running};
use crate::program::User;
use crate::support::Server;
use crate::support::waiting::exit_of;

#[tokio::test]
async fn events_are_listed_oldest_first_with_filters() {
    let server = Server::start();
    let (admin, user) = (server.admin(), User::admin(&server));
    let session = admin.claim("review-1", json!({ "commitId": "c0ffee1" })).await.created().session();
    admin.delete("/pipelines/web/ephemeral-environments/review-1/lock").await.ok();
    let shown = user.run(&["events", "--env", "review-1"]).ok().stdout;
    let place = |text: &str| shown.find(text).unwrap_or_else(|| panic!("no {text} in {shown}"));
    assert!(place("session.claimed") < place("session.released"), "{shown}");
    assert!(shown.contains("web/review-1  admin") && shown.contains("commit c0ffee1, fencing token 1"), "{shown}");
    let types = |arguments: &[&str]| -> Vec<Value> {
        let listed = user.json(&[&["events"], arguments].concat());
        listed.as_array().unwrap().iter().map(|event| event["type"].clone()).collect()
    };
    assert_eq!(types(&["--session", &session, "--type", "session.*"]), ["session.released", "session.claimed"]);
    assert_eq!(types(&["--type", "session.claimed,token.created", "--since", "1h", "-n", "1"]), ["session.claimed"]);
    assert_eq!(types(&["--until", "1d"]), [""; 0]);
    assert_eq!(types(&["--pipeline", "shop", "--type", "session.*"]), [""; 0]);
    user.run(&["events", "--until", "1d"]).ok().complains("no events");
    user.run(&["events", "--type", "session.claim"]).with_code(2).complains("did you mean `session.claimed`?");
    user.run(&["events", "--since", "yesterday"]).with_code(2).complains("15m, 2h or 3d");
}

#[tokio::test]
async fn followed_events_miss_nothing_and_repeat_nothing_over_a_restart() {
    let mut server = Server::start();
    let detour = Detour::to(&server);
    let user = User::admin(&server).with("LOCKKEEPER_URL", &detour.address);
    let before = claimed(&server).await;
    let following = Running::start(&user, &["events", "-f", "--json", "--type", "session.claimed"]);
    assert!(following.until("session.claimed").contains(&before));
    let during = claimed(&server).await;
    assert!(following.until("session.claimed").contains(&during));
    server.kill();
    server.start_again();
    // Events that happen while it cannot connect are not lost.
    let after = [claimed(&server).await, claimed(&server).await];
    detour.lead_to(&server);
    for session in &after {
        let line = following.until("session.claimed");
        let event: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(&event["sessionId"], session);
    }
    user.run(&["events", "-f", "--retry", "0", "--url", "http://127.0.0.1:9"]).with_code(69);
}

/// A session that has ended.
async fn claimed(server: &Server) -> String {
    let session = server.admin().claim("review-1", json!({})).await.created().session();
    server.admin().delete("/pipelines/web/ephemeral-environments/review-1/lock").await.ok();
    session
}

#[tokio::test]
async fn a_command_that_follows_ends_when_its_reader_has_gone() {
    let server = Server::start();
    let user = User::admin(&server);
    // No more events happen: the loss is noticed without one.
    for arguments in [&["events", "-f"][..], &["watch"]] {
        let mut following = user.command(arguments).spawn().unwrap();
        drop(following.stdout.take());
        assert_eq!(exit_of(&mut following).code(), Some(0), "{arguments:?}");
    }
}
