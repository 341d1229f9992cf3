//! Getting the lock: in the queue, immediately or not at all, and despite lost answers.

use std::fs::File;
use std::process::Stdio;

use serde_json::json;

use super::relay::Relay;
use super::{Notes, Running, command, ended, run, run_script};
use crate::support::{Server, at};

#[tokio::test]
async fn it_waits_in_the_queue_and_says_for_whom() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let held = ana.claim("review-1", json!({ "context": "load test" })).await.created().session();
    let notes = Notes::new();
    let mut command = run_script(&server.address, &["review-1"], "echo mine");
    let running = command.stdout(Stdio::piped()).stderr(File::create(notes.at("stderr")).unwrap()).spawn().unwrap();
    let said = notes.read("stderr").await;
    assert!(said.starts_with("lockkeeper: waiting for review-1 for "), "{said}");
    assert!(said.contains("place 1 in the queue; ana has held it for"), "{said}");
    assert!(said.contains("(load test)") && !said.contains('\r'), "{said}");
    ana.release("review-1", &held).await.ok();
    let output = running.wait_with_output().unwrap();
    assert_eq!((ended(&output).0, ended(&output).1), (0, "mine\n".to_owned()));
}

#[tokio::test]
async fn any_of_several_that_are_taken_is_waited_for() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    ana.claim("review-1", json!({ "context": "one" })).await.created();
    let second = ana.claim("review-2", json!({ "context": "two" })).await.created().session();
    let notes = Notes::new();
    let mut command = run_script(&server.address, &["--label", "size=small"], "echo $LOCKKEEPER_ENVIRONMENT");
    let running = command.stdout(Stdio::piped()).stderr(File::create(notes.at("stderr")).unwrap()).spawn().unwrap();
    let said = notes.read("stderr").await;
    assert!(said.starts_with("lockkeeper: waiting for any environment with size=small for "), "{said}");
    assert!(said.contains("2 environments, all taken; review-1: ana has held it for"), "{said}");
    ana.release("review-2", &second).await.ok();
    let output = running.wait_with_output().unwrap();
    assert_eq!((ended(&output).0, ended(&output).1), (0, "review-2\n".to_owned()));
}

#[tokio::test]
async fn without_waiting_a_taken_environment_is_refused_with_its_holder() {
    let server = Server::start();
    server.as_user("ana").await.claim("review-1", json!({ "context": "load test" })).await.created();
    let (code, stdout, stderr) =
        ended(&run(&server.address, &["review-1", "--wait", "0", "--", "echo", "mine"]).output().unwrap());
    assert_eq!((code, stdout.as_str()), (75, ""), "{stderr}");
    assert!(stderr.contains("ana has held it for") && stderr.contains("(load test)"), "{stderr}");
    assert_eq!(server.admin().environment("review-1").await.ok().data()["queueLength"], 0);
}

#[tokio::test]
async fn waiting_in_vain_leaves_the_queue() {
    let server = Server::start();
    server.as_user("ana").await.claim("review-1", json!({})).await.created();
    let (code, stdout, stderr) =
        ended(&run(&server.address, &["review-1", "--wait", "1", "--", "echo", "mine"]).output().unwrap());
    assert_eq!((code, stdout.as_str()), (124, ""), "{stderr}");
    assert_eq!(server.admin().environment("review-1").await.ok().data()["queueLength"], 0);
}

#[tokio::test]
async fn however_many_answers_are_lost_there_is_one_claim() {
    let server = Server::start();
    let relay = Relay::to(&server.address);
    for lost in 1..=6 {
        relay.lose_answers(lost);
        // With the organization given, the first request is the claim.
        let arguments = ["review-1", "--org", "acme", "--", "sh", "-c", "echo $LOCKKEEPER_FENCING_TOKEN"];
        let (code, stdout, stderr) = ended(&run(&relay.address, &arguments).output().unwrap());
        assert_eq!((code, stdout), (0, format!("{lost}\n")), "{stderr}");
        assert_eq!(relay.still_losing(), 0);
        let environment = server.admin().environment("review-1").await.ok().data();
        assert_eq!(
            (&environment["lockStatus"], &environment["queueLength"]),
            (&json!("unlocked"), &json!(0)),
            "{stderr}"
        );
    }
    let history = server.admin().get(&format!("{}/history", at("review-1"))).await.ok().data();
    assert_eq!(history.as_array().unwrap().len(), 6, "{history}");
}

#[tokio::test]
async fn a_place_in_the_queue_outlives_a_restart_of_the_server() {
    let mut server = Server::start();
    let relay = Relay::to(&server.address);
    let ana = server.as_user("ana").await;
    let held = ana.claim("review-1", json!({})).await.created().session();
    let running = Running::start(&mut run_script(&relay.address, &["review-1"], "echo mine"));
    ana.until_queue_is("review-1", 1).await;
    server.kill();
    server.start_again();
    relay.lead_to(&server.address);
    let ana = ana.at(&server);
    assert_eq!(ana.environment("review-1").await.ok().data()["queueLength"], 1);
    ana.release("review-1", &held).await.ok();
    let (code, stdout, stderr) = running.end();
    assert_eq!((code, stdout.as_str()), (0, "mine\n"), "{stderr}");
}

#[tokio::test]
async fn a_claim_that_is_given_up_without_an_answer_leaves_no_lock() {
    let server = Server::start();
    let relay = Relay::to(&server.address);
    // Every answer is lost until patience is over: the claim was executed, but its client does not know.
    relay.lose_answers(usize::MAX);
    let arguments = ["review-1", "--org", "acme", "--retry", "1", "--ttl", "5", "--", "echo", "mine"];
    let (code, stdout, stderr) = ended(&run(&relay.address, &arguments).output().unwrap());
    assert_eq!((code, stdout.as_str()), (69, ""), "{stderr}");
    assert!(stderr.contains("expires on its own"), "{stderr}");
    server.admin().until_environment("review-1", |found| found["lockStatus"] == "unlocked").await;
}

#[tokio::test]
async fn a_claim_that_is_given_up_is_given_back() {
    let server = Server::start();
    let relay = Relay::to(&server.address);
    let ana = server.as_user("ana").await;
    ana.claim("review-1", json!({})).await.created();
    let running = Running::start(&mut run(&relay.address, &["review-1", "--", "echo", "mine"]));
    ana.until_queue_is("review-1", 1).await;
    running.signal("-INT");
    let (code, stdout, stderr) = running.end();
    assert_eq!((code, stdout.as_str()), (130, ""), "{stderr}");
    assert_eq!(ana.environment("review-1").await.ok().data()["queueLength"], 0);
}

#[tokio::test]
async fn a_claim_waits_its_turn_if_it_is_told_to() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let held = ana.claim("review-1", json!({})).await.created().session();
    let (code, stdout, stderr) =
        ended(&command(&server.address, &["claim", "review-1", "--wait", "1"]).output().unwrap());
    assert_eq!((code, stdout.as_str()), (124, ""), "{stderr}");
    assert_eq!(ana.environment("review-1").await.ok().data()["queueLength"], 0);
    let waiting = ["claim", "review-1", "--wait", "50", "--ttl", "60", "--json"];
    let waits = Running::start(&mut command(&server.address, &waiting));
    ana.until_queue_is("review-1", 1).await;
    ana.release("review-1", &held).await.ok();
    let (code, stdout, stderr) = waits.end();
    assert_eq!(code, 0, "{stderr}");
    let session: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&session["envName"], &session["lockStatus"]), (&json!("review-1"), &json!("active")));
    assert_eq!(ana.environment("review-1").await.ok().data()["lock"]["sessionId"], session["sessionId"]);
}
