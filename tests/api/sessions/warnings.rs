//! Locks that never expire automatically are reported to their holders and to waiters.

use serde_json::{Value, json};

use crate::support::waiting::Bounded;
use crate::support::{Answer, Server, Setup, assert_fields, at, lockkeeper};

/// Environments without a TTL, in addition to those of the sample.
async fn with_endless(names: &[&str]) -> Server {
    let server = Server::start();
    for name in names {
        server.admin().put(&at(name), json!({ "labels": { "endless": "yes" } })).await.created();
    }
    server
}

fn says_endless(text: &Value) {
    let text = text.as_str().unwrap_or_else(|| panic!("no text: {text}"));
    assert!(text.contains("never expires on its own"), "{text}");
}

fn detail(answer: &Answer) -> Value {
    answer.json()["detail"].clone()
}

#[tokio::test]
async fn a_lock_without_a_ttl_comes_with_a_warning_and_one_with_a_ttl_without() {
    let server = with_endless(&["endless"]).await;
    let ana = server.as_user("ana").await;
    let claimed = ana.claim("endless", json!({})).await.created();
    says_endless(&claimed.data()["warning"]);
    assert!(claimed.data()["warning"].as_str().unwrap().contains("ttlSeconds"));
    let session = claimed.session();
    for answer in [ana.session("endless", &session).await, ana.heartbeat("endless", &session).await] {
        says_endless(&answer.ok().data()["warning"]);
    }
    says_endless(&ana.force_claim("endless", json!({})).await.created().data()["warning"]);
    let forced = ana.force_claim("endless", json!({ "ttlSeconds": 60 })).await.created().data();
    assert_eq!(forced["warning"], Value::Null);
    assert_eq!(ana.session("endless", &session).await.ok().data()["warning"], Value::Null, "it has ended");
    // The sample's environments have a TTL.
    let claimed = ana.claim("review-1", json!({})).await.created().data();
    assert!(claimed["warning"].is_null() && claimed["expiresAt"].is_string(), "{claimed}");
    // A maximum hold is an end too.
    server.admin().put(&at("held"), json!({ "maxHoldSeconds": 3600 })).await.created();
    assert_eq!(ana.claim("held", json!({})).await.created().data()["warning"], Value::Null);
}

#[tokio::test]
async fn a_refusal_and_a_wait_behind_such_a_lock_say_so() {
    let server = with_endless(&["endless"]).await;
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let session = ana.claim("endless", json!({})).await.created().session();
    let at_once = ben.claim("endless", json!({})).await.refused(409, "environment_locked");
    let in_vain = ben.claim("endless", json!({ "waitSeconds": 1 })).await.refused(409, "environment_locked");
    for refused in [at_once, in_vain] {
        says_endless(&detail(&refused));
        assert!(refused.json()["detail"].as_str().unwrap().contains("ask ana"), "{refused:?}");
    }
    let queued = ben.enqueue("endless", json!({})).await;
    says_endless(&queued.data()["warning"]);
    let id = queued.session();
    says_endless(&ben.session("endless", &id).await.ok().data()["warning"]);
    let after_waiting = ben.claim("endless", json!({ "queue": true, "waitSeconds": 1 })).await.has_status(202);
    says_endless(&after_waiting.data()["warning"]);
    let listed = ben.get("/sessions?envName=endless&lockStatus=queued").await.ok().data();
    says_endless(&listed[0]["warning"]);

    // Behind a lock that expires there is no warning.
    ana.release("endless", &session).await.ok();
    ben.until_session_is("endless", &id, "active").await;
    ben.force_claim("endless", json!({ "ttlSeconds": 60 })).await.created();
    let refused = ana.claim("endless", json!({})).await.refused(409, "environment_locked");
    assert!(!detail(&refused).to_string().contains("never expires"), "{refused:?}");
    assert_eq!(ana.enqueue("endless", json!({})).await.data()["warning"], Value::Null);
}

#[tokio::test]
async fn a_claim_of_any_that_is_refused_lists_who_holds_what_it_could_have_had() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    ana.claim("review-2", json!({ "context": "PR 412" })).await.created();
    let second = ben.claim("review-1", json!({})).await.created().data();
    for body in [json!({ "labels": { "size": "small" } }), json!({ "labels": { "size": "small" }, "waitSeconds": 1 })] {
        let refused = ana.claim_any(body).await.refused(409, "environment_locked");
        let told = refused.json();
        assert_eq!(told["holder"], Value::Null);
        let holders = told["holders"].as_array().unwrap();
        let named: Vec<_> = holders.iter().map(|holder| (&holder["envName"], &holder["user"]["name"])).collect();
        assert_eq!(named, [(&json!("review-2"), &json!("ana")), (&json!("review-1"), &json!("ben"))], "longest first");
        assert_fields(&holders[1], "envName sessionId user commitId context claimedAt expiresAt fencingToken");
        assert_eq!((&holders[1]["sessionId"], &holders[0]["context"]), (&second["sessionId"], &json!("PR 412")));
        assert!(!detail(&refused).to_string().contains("expire"), "{refused:?}");
    }
}

#[tokio::test]
async fn at_most_ten_holders_are_listed_and_locks_without_end_are_said_to_be() {
    let names: Vec<_> = (0..12).map(|number| format!("endless-{number}")).collect();
    let server = with_endless(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let ana = server.as_user("ana").await;
    let body = json!({ "labels": { "endless": "yes" } });
    for _ in &names {
        ana.claim_any(body.clone()).await.created();
    }
    let refused = ana.claim_any(body.clone()).await.refused(409, "environment_locked");
    let told = refused.json();
    let holders = told["holders"].as_array().unwrap();
    assert_eq!(holders.len(), 10);
    assert!(holders.iter().all(|holder| holder["expiresAt"].is_null()), "{told}");
    assert!(told["detail"].as_str().unwrap().contains("never expire by themselves"), "{told}");
    let queued = ana.claim_any(json!({ "labels": { "endless": "yes" }, "queue": true })).await.has_status(202);
    assert_eq!(queued.data()["warning"], Value::Null, "it waits for nobody in particular");
}

#[tokio::test]
async fn the_first_command_that_a_start_prints_has_a_ttl() {
    let home = tempfile::tempdir().unwrap();
    let setup = Setup::default().without_variable("LOCKKEEPER_BOOTSTRAP_TOKEN");
    let mut server = setup.start_at(home.path());
    let token = server.greeting.lines().find_map(|line| line.strip_prefix("Admin token:")).unwrap().trim();
    let token = token.split_whitespace().next().unwrap().to_owned();
    let admin = server.with_token(&token);
    let claimed = admin.claim("review-1", json!({ "ttlSeconds": 900 })).await.created().data();
    assert_eq!(claimed["warning"], Value::Null);
    assert!(server.terminate().success());
    // Output after the line about the token: from a separate start whose whole output is read.
    let other = tempfile::tempdir().unwrap();
    let data = other.path().join("data");
    let mut command = lockkeeper(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]);
    let mut child = Bounded::spawn(command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()));
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let curl = lines.map(Result::unwrap).find(|line| line.contains("curl ")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(curl.ends_with("\"ttlSeconds\": 900}'"), "{curl}");
}

/// The sample of an earlier version had no TTL: its changed entries are applied, as its first comment says, and changes
/// through the API stay where the entry is the same.
#[tokio::test]
async fn a_data_directory_with_the_earlier_sample_gets_the_ttl() {
    let sample = include_str!("../../../config/acme.toml");
    let earlier: String = sample
        .lines()
        .filter(|line| !line.starts_with("default_ttl_seconds = 3600"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(sample.lines().count() - earlier.lines().count(), 3);
    let mut server = Setup::default().organization(&earlier).start();
    let admin = server.admin();
    let ttl = |client: crate::support::Client, name: &'static str| async move {
        client.environment(name).await.ok().data()["configuration"]["defaultTtlSeconds"].clone()
    };
    assert_eq!(ttl(admin.clone(), "review-1").await, Value::Null);
    let endless = admin.claim("review-1", json!({})).await.created().session();
    assert!(server.terminate().success());
    server.change_setup(|_| Setup::default());
    server.start_again();
    let admin = admin.at(&server);
    for name in ["review-1", "review-2", "review-3"] {
        assert_eq!(ttl(admin.clone(), name).await, 3600, "{name}");
    }
    let held = admin.session("review-1", &endless).await.ok().data();
    assert_eq!(held["expiresAt"], Value::Null, "who has the lock keeps it as it was given");
    admin.release("review-1", &endless).await.ok();
    assert!(admin.claim("review-1", json!({})).await.created().data()["expiresAt"].is_string());
    // Changes through the API from now on stay, since the entry is the same at the next start.
    admin.put(&at("review-2"), json!({ "defaultTtlSeconds": 60 })).await.ok();
    assert!(server.terminate().success());
    server.start_again();
    assert_eq!(ttl(admin.at(&server), "review-2").await, 60);
}
