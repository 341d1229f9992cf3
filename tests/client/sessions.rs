//! Environments and sessions: every command in both output forms, every outcome with its exit code.

use serde_json::json;

use crate::program::User;
use crate::support::{Server, assert_has};

#[tokio::test]
async fn environments_are_listed_as_a_table_and_as_json() {
    let server = Server::start();
    let admin = User::admin(&server);
    admin.run(&["claim", "review-2", "--context", "PR 412", "--ttl", "600"]).ok();
    let table = admin.run(&["envs"]).ok();
    let lines: Vec<&str> = table.stdout.lines().collect();
    assert!(lines[0].starts_with("ENVIRONMENT  STATUS    HOLDER"), "{}", table.stdout);
    assert!(lines[1].starts_with("review-1     unlocked"), "{}", table.stdout);
    assert!(lines[2].starts_with("review-2     locked    admin") && lines[2].ends_with("PR 412"), "{}", table.stdout);
    let listed = admin.json(&["envs"]);
    assert_eq!(listed.as_array().unwrap().len(), 3);
    assert_has(&listed[1], json!({ "envName": "review-2", "lockStatus": "locked" }));
    admin.run(&["envs", "--status", "locked"]).ok().says("review-2");
    assert_eq!(admin.json(&["envs", "--label", "size=large"]).as_array().unwrap().len(), 1);
    admin.run(&["envs", "--label", "size=huge"]).ok().complains("no environments");
    admin.run(&["envs", "--status", "lokced"]).with_code(2).complains("lockStatus");
}

#[tokio::test]
async fn one_environment_is_shown_with_its_holder_and_configuration() {
    let server = Server::start();
    let admin = User::admin(&server);
    admin.run(&["claim", "review-2", "--context", "PR 412"]).ok();
    admin.run(&["env", "web/review-2"]).ok().says("admin has held it for").says("(PR 412)").says("force-claim:");
    assert_has(&admin.json(&["env", "review-2"]), json!({ "envName": "review-2", "lockStatus": "locked" }));
    admin.run(&["env", "review-9"]).with_code(66).complains("environment");
    admin.run(&["env", "a/b/c"]).with_code(2);
    admin.run(&["env"]).with_code(2).complains("LOCKKEEPER_ENVIRONMENT");
}

#[tokio::test]
async fn a_claim_is_extended_shown_and_released() {
    let server = Server::start();
    let admin = User::admin(&server);
    let claimed = admin.json(&["claim", "review-1", "--ttl", "600", "--context", "PR 412", "--commit", "c0ffee1"]);
    assert_has(
        &claimed,
        json!({ "envName": "review-1", "lockStatus": "active", "context": "PR 412", "commitId": "c0ffee1" }),
    );
    let session = claimed["sessionId"].as_str().unwrap();
    admin.run(&["extend", "review-1"]).ok().says(session).says("in 9 min");
    assert_eq!(admin.json(&["extend", "review-1"])["sessionId"], session);
    admin.run(&["status"]).ok().says("web/review-1").says(session);
    assert_eq!(admin.json(&["status"])[0]["sessionId"], session);
    admin.run(&["status", "review-1"]).ok().says("active for");
    assert_eq!(admin.json(&["status", "review-1", "--session", session])["sessionId"], session);
    admin.run(&["release", "review-1"]).ok().says("released");
    // Repeating the request does not change the outcome.
    assert_eq!(admin.json(&["release", "review-1", "--session", session])["lockStatus"], "released");
    admin.run(&["status", "review-1", "--session", session]).with_code(79).complains("released the session");
    admin.run(&["release", "review-1"]).with_code(66).complains("you have no session in review-1: nobody has it");
    admin.run(&["status"]).ok().complains("you hold nothing");
}

#[tokio::test]
async fn a_claim_that_is_denied_was_not_made() {
    let server = Server::start();
    let vic = User::member(&server, "vic").await;
    for command in [&["claim", "review-1"][..], &["run", "review-1", "--", "true"]] {
        let refused = vic.run(command).with_code(77);
        assert!(!refused.stderr.contains("is not known"), "{}", refused.stderr);
    }
}

#[tokio::test]
async fn a_ttl_is_given_in_seconds_or_with_units() {
    let server = Server::start();
    let admin = User::admin(&server);
    for (ttl, left) in [("600", "in 9 min"), ("10m", "in 9 min"), ("1h30m", "in 1 h 29 min")] {
        admin.run(&["claim", "review-1", "--ttl", ttl]).ok();
        admin.run(&["extend", "review-1"]).ok().says(left);
        admin.run(&["release", "review-1"]).ok();
    }
    admin.run(&["claim", "review-1", "--ttl", "ten"]).with_code(2).complains("1h30m");
    admin.run(&["run", "review-1", "--ttl", "4s", "--", "true"]).with_code(2).complains("at least 5 s");
}

#[tokio::test]
async fn any_environment_with_a_label_can_be_claimed() {
    let server = Server::start();
    let (admin, ana) = (User::admin(&server), User::member(&server, "ana").await);
    assert_eq!(admin.json(&["claim", "--label", "size=large"])["envName"], "review-3");
    let refused = ana.run(&["claim", "--label", "size=large"]).with_code(75);
    refused.complains("all environments with these labels are locked").complains("review-3: admin has held it for");
    ana.run(&["claim", "--label", "size=huge"]).with_code(66);
    ana.run(&["claim"]).with_code(2);
    ana.run(&["claim", "review-1", "--label", "size=large"]).with_code(2);
}

#[tokio::test]
async fn a_locked_environment_says_who_has_it() {
    let server = Server::start();
    let (ana, ben) = (User::member(&server, "ana").await, User::member(&server, "ben").await);
    ana.run(&["claim", "review-1", "--ttl", "600", "--context", "PR 412"]).ok();
    let refused = ben.run(&["claim", "review-1", "--json"]).with_code(75);
    assert_eq!(refused.stdout, "");
    refused.complains("locked: ana has held it for").complains("(PR 412), expires in 9 min");
    ben.run(&["release", "review-1"]).with_code(66).complains("ana has held it");
    ben.run(&["release", "review-1", "--anyone"]).with_code(77);
    User::member(&server, "mia").await.run(&["release", "review-1", "--anyone"]).ok().says("released");
    ben.run(&["claim", "review-1"]).ok();
}

#[tokio::test]
async fn a_force_claim_takes_the_lock_and_its_old_holder_is_told() {
    let server = Server::start();
    let (ana, ben) = (User::member(&server, "ana").await, User::member(&server, "ben").await);
    let session = ana.json(&["claim", "review-1", "--ttl", "600"]);
    let session = session["sessionId"].as_str().unwrap();
    ben.run(&["force-claim", "review-1", "--context", "hotfix"]).ok().complains("taken over: ana has held it");
    for command in ["extend", "release", "status"] {
        let lost = ana.run(&[command, "review-1", "--session", session]).with_code(79);
        lost.complains("the lock is lost: ben force-claimed the environment");
    }
    ana.run(&["deploy", "review-1", "c0ffee1", "--session", session]).with_code(79);
    let taken = User::admin(&server).json(&["force-claim", "review-1"]);
    assert_eq!(taken["overrode"]["user"]["name"], "ben");
    User::member(&server, "vic").await.run(&["force-claim", "review-1"]).with_code(77);
}

#[tokio::test]
async fn a_command_under_a_claim_needs_no_names() {
    let server = Server::start();
    let ana = User::member(&server, "ana").await;
    let lines = ana.run(&["claim", "review-1", "--shell", "--ttl", "600"]).ok();
    let mut under = User::member(&server, "ana").await.without("LOCKKEEPER_PIPELINE");
    for line in lines.stdout.lines() {
        let (name, value) = line.strip_prefix("export ").unwrap().split_once('=').unwrap();
        under = under.with(name, value);
    }
    under.run(&["status"]).ok().says("review-1");
    under.run(&["extend"]).ok();
    under.run(&["deploy", "c0ffee1"]).ok().says("c0ffee1");
    // The variable refers only to a session of this environment.
    ana.run(&["claim", "review-2"]).ok();
    let other = under.json(&["status", "review-2"]);
    assert_eq!((&other["envName"], &other["lockStatus"]), (&json!("review-2"), &json!("active")));
    under.run(&["release"]).ok().says("released");
    ana.run(&["status", "review-2"]).ok();
}

#[tokio::test]
async fn queue_and_history_are_shown_in_both_forms() {
    let server = Server::start();
    let (admin, ana) = (User::admin(&server), User::member(&server, "ana").await);
    admin.run(&["queue", "review-1"]).ok().complains("nobody waits");
    admin.run(&["claim", "review-1"]).ok();
    let waiting = server.as_user("ana").await.claim("review-1", json!({ "queue": true, "context": "PR 7" })).await;
    let waiting = waiting.has_status(202).session();
    admin.run(&["queue", "review-1"]).ok().says("PLACE").says(&waiting).says("PR 7");
    assert_eq!(admin.json(&["queue", "review-1"])[0]["position"], 1);
    ana.run(&["status", "review-1"]).with_code(75).says("queued, place 1");
    ana.run(&["release", "review-1"]).ok();
    admin.run(&["release", "review-1"]).ok();
    admin.run(&["claim", "review-1", "--context", "again"]).ok();
    admin.run(&["history", "review-1"]).ok().says("CLAIMED (UTC)").says("released").says("again");
    admin.run(&["history", "review-1", "--limit", "1"]).ok().complains("--page 2");
    assert_eq!(admin.json(&["history", "review-1", "--limit", "1"]).as_array().unwrap().len(), 1);
    admin.run(&["status", "--all"]).ok().says("web/review-1");
}

#[tokio::test]
async fn text_of_others_does_nothing_to_the_terminal() {
    let server = Server::start();
    let admin = User::admin(&server);
    admin.run(&["claim", "review-1", "--context", "a\tb\nc\u{202e}d 環境"]).ok();
    let shown = admin.run(&["envs"]).ok();
    assert_eq!(shown.stdout.lines().count(), 4, "{}", shown.stdout);
    shown.says("a b c\u{fffd}d 環境");
    assert_eq!(admin.json(&["env", "review-1"])["lock"]["context"], "a\tb\nc\u{202e}d 環境");
}
