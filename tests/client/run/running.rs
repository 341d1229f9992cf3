//! The normal case: claim, run, release, and the command's own exit code.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use super::{Notes, Running, ended, run, run_script};
use crate::support::waiting::exit_of;
use crate::support::{Server, Setup, at};

#[tokio::test]
async fn a_command_runs_while_its_environment_is_held() {
    let server = Server::start();
    let notes = Notes::new();
    let script = format!(
        "echo $LOCKKEEPER_SESSION > {0}/session; while [ ! -e {0}/go ]; do sleep 0.01; done; \
         echo $LOCKKEEPER_ENVIRONMENT $LOCKKEEPER_FENCING_TOKEN $LOCKKEEPER_ORGANIZATION $LOCKKEEPER_PIPELINE $LOCKKEEPER_URL",
        notes.path().display()
    );
    let running = Running::start(&mut run_script(&server.address, &["review-1", "--context", "PR 412"], &script));
    let session = notes.read("session").await;
    let lock = server.admin().environment("review-1").await.ok().data()["lock"].clone();
    assert_eq!((lock["sessionId"].as_str(), lock["context"].as_str()), (Some(&*session), Some("PR 412")));
    notes.write("go");
    let (code, stdout, stderr) = running.end();
    assert_eq!((code, stdout), (0, format!("review-1 1 acme web {}\n", server.address)), "{stderr}");
    assert_eq!(stderr, "lockkeeper: holding review-1, fencing token 1\n");
    assert_eq!(server.admin().environment("review-1").await.ok().data()["lockStatus"], "unlocked");
    let history = server.admin().get(&format!("{}/history", at("review-1"))).await.ok().data();
    assert_eq!(
        (history[0]["lockStatus"].as_str(), history[0]["sessionId"].as_str()),
        (Some("released"), Some(&*session))
    );
}

#[tokio::test]
async fn the_exit_code_is_the_commands_own() {
    let server = Server::start();
    for (script, code) in
        [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -KILL $$", 137), ("kill -TERM $$", 143)]
    {
        let output = run_script(&server.address, &["review-1"], script).output().unwrap();
        assert_eq!(ended(&output).0, code, "{script}: {output:?}");
    }
    let notes = Notes::new();
    notes.write("plain");
    let plain = notes.at("plain");
    for (program, code, words) in
        [("/nonexistent/program", 127, "was not found"), (plain.to_str().unwrap(), 126, "may not be executed")]
    {
        let (found, _, stderr) = ended(&run(&server.address, &["review-1", "--", program]).output().unwrap());
        assert_eq!(found, code, "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }
    assert_eq!(server.admin().environment("review-1").await.ok().data()["lockStatus"], "unlocked");
}

#[tokio::test]
async fn input_and_output_are_the_commands_own() {
    let server = Server::start();
    let mut command = run(&server.address, &["review-1", "--", "cat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((ended(&output).0, ended(&output).1), (0, "one\ntwo\n".to_owned()), "{output:?}");
}

#[tokio::test]
async fn a_command_may_close_its_output_and_its_reader_may_go() {
    let server = Server::start();
    let output = run_script(&server.address, &["review-1"], "exec <&- >&- 2>&-; exit 5").output().unwrap();
    assert_eq!(ended(&output).0, 5, "{output:?}");
    let mut running = run(&server.address, &["review-1", "--", "yes"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(running.stdout.take());
    let status = exit_of(&mut running);
    assert_eq!(status.code(), Some(128 + 13), "ended by SIGPIPE, as without us");
    assert_eq!(server.admin().environment("review-1").await.ok().data()["lockStatus"], "unlocked");
}

#[tokio::test]
async fn the_command_inherits_no_pipe_of_ours() {
    let server = Server::start();
    let script = "for fd in /proc/self/fd/*; do readlink $fd; done | grep -c pipe: || true";
    let output = run_script(&server.address, &["review-1"], script).stderr(Stdio::null()).output().unwrap();
    // Its standard output, and the pipe between the two halves of the script.
    let count: u32 = ended(&output).1.trim().parse().unwrap();
    assert!(count <= 2, "{output:?}");
}

#[tokio::test]
async fn any_environment_with_a_label_will_do() {
    let server = Server::start();
    let output =
        run_script(&server.address, &["--label", "size=large"], "echo $LOCKKEEPER_ENVIRONMENT").output().unwrap();
    assert_eq!((ended(&output).0, ended(&output).1), (0, "review-3\n".to_owned()), "{output:?}");
}

#[tokio::test]
async fn the_context_comes_from_the_variables_of_the_ci() {
    let server = Server::start();
    let mut command = run(&server.address, &["review-1", "--", "true"]);
    command.env("GITLAB_CI", "true").env("CI_MERGE_REQUEST_IID", "9").env("CI_JOB_URL", "https://ci.example/77");
    assert_eq!(ended(&command.output().unwrap()).0, 0);
    let history = server.admin().get(&format!("{}/history", at("review-1"))).await.ok().data();
    assert!(history[0]["context"].as_str().unwrap().starts_with("MR 9"), "{history}");
    assert!(history[0]["context"].as_str().unwrap().ends_with("https://ci.example/77"), "{history}");
}

#[tokio::test]
async fn usage_is_explained_and_has_its_exit_code() {
    let server = Server::start();
    for arguments in [
        &["review-1"][..],
        &["--", "true"],
        &["review-1", "--label", "size=large", "--", "true"],
        &["review-1", "--ttl", "4", "--", "true"],
        &["review-1", "--ttl", "999999999", "--", "true"],
        &["review-1", "--priority", "101", "--", "true"],
        &["a b", "--", "true"],
    ] {
        let (code, _, stderr) = ended(&run(&server.address, arguments).output().unwrap());
        assert_eq!(code, 2, "{arguments:?}: {stderr}");
        assert!(!stderr.is_empty());
    }
    for (arguments, code) in [(["review-9", "--", "true"], 66), (["nowhere/review-1", "--", "true"], 66)] {
        let (found, _, stderr) = ended(&run(&server.address, &arguments).output().unwrap());
        assert_eq!(found, code, "{stderr}");
    }
    let (code, _, stderr) =
        ended(&run(&server.address, &["review-1", "--", "true"]).env("LOCKKEEPER_TOKEN", "lk_wrong").output().unwrap());
    assert_eq!(code, 77, "{stderr}");
    let (code, _, stderr) =
        ended(&run("http://127.0.0.1:1", &["review-1", "--retry", "0", "--", "true"]).output().unwrap());
    assert_eq!(code, 69, "{stderr}");
}

#[tokio::test]
async fn a_commit_is_deployed_before_the_command_starts() {
    let server = Server::start();
    let script = "echo $LOCKKEEPER_ENVIRONMENT";
    let output = run_script(&server.address, &["review-1", "--deploy", "c0ffee1"], script).output().unwrap();
    assert_eq!((ended(&output).0, ended(&output).1), (0, "review-1\n".to_owned()), "{output:?}");
    let environment = server.admin().environment("review-1").await.ok().data();
    assert_eq!(environment["lastDeployment"]["commitId"], "c0ffee1");
}

#[tokio::test]
async fn a_failed_deployment_starts_no_command_and_leaves_no_lock() {
    let server = Setup::default().start();
    let admin = server.admin();
    let stages = json!([{ "name": "build", "steps": [{ "run": ["false"] }] }]);
    admin.put("/pipelines/failing", json!({ "stages": stages })).await.created();
    admin.put("/pipelines/failing/ephemeral-environments/e", json!({})).await.created();
    let output = run(&server.address, &["failing/e", "--deploy", "c0ffee1", "--", "echo", "started"]).output().unwrap();
    let (code, stdout, stderr) = ended(&output);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(
        stderr.contains("deploying c0ffee1: build failed") && stderr.contains("the deployment of c0ffee1 failed"),
        "{stderr}"
    );
    let environment = admin.get("/pipelines/failing/ephemeral-environments/e").await.ok().data();
    assert_eq!(environment["lockStatus"], "unlocked");
}
