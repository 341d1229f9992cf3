//! The input of a step, and how it ends.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::site::{ENVIRONMENT, Site, id, sh, stage, stage_with};
use crate::support::{Setup, assert_fields, assert_has, assert_is_time, at};

#[tokio::test]
async fn stages_and_steps_run_in_order_and_a_later_one_finds_what_an_earlier_one_left() {
    let build = json!({ "name": "build", "steps": [
        { "name": "compile", "run": ["sh", "-c", "echo compiling $LOCKKEEPER_COMMIT; echo built > artefact"] },
        { "run": ["cat", "artefact"] },
    ]});
    let site = Site::with(json!([build, stage("deploy", "echo deploying; cat artefact")])).await;
    let done = site.run().await;
    assert_fields(
        &done,
        "deploymentId pipelineId envName sessionId commitId fencingToken status stages createdAt startedAt finishedAt \
         error user retriedBy",
    );
    assert_has(&done, json!({ "status": "succeeded", "pipelineId": "web", "envName": ENVIRONMENT, "error": null }));
    assert_has(&done, json!({ "commitId": "c0ffee1", "fencingToken": 1 }));
    let stages = done["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 2);
    assert_has(&stages[0], json!({ "name": "build", "status": "succeeded", "attempt": 1 }));
    let steps = stages[0]["steps"].as_array().unwrap();
    assert_has(&steps[0], json!({ "name": "compile", "status": "succeeded", "exitCode": 0 }));
    assert_has(&steps[1], json!({ "name": "step-2", "status": "succeeded", "exitCode": 0 }));
    assert_is_time(&steps[1]["startedAt"]);
    assert!(steps[0]["finishedAt"].as_str() <= steps[1]["startedAt"].as_str());
    let log = site.log(done["deploymentId"].as_str().unwrap()).await;
    assert_eq!(log, "compiling c0ffee1\nbuilt\ndeploying\nbuilt\n");
}

#[tokio::test]
async fn a_failure_names_the_step_and_its_exit_code_and_skips_the_rest() {
    let first = json!({ "name": "first", "steps": [
        sh("echo fine"),
        { "name": "breaks", "run": ["sh", "-c", "echo broken >&2; exit 3"] },
        sh("echo never"),
    ]});
    let site = Site::with(json!([first, stage("second", "echo never")])).await;
    let failed = site.run().await;
    assert_has(&failed, json!({ "status": "failed", "error": "stage `first`: step `breaks` exited with code 3" }));
    let statuses = |steps: &Value| -> Vec<String> {
        steps.as_array().unwrap().iter().map(|step| step["status"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(statuses(&failed["stages"]), ["failed", "skipped"]);
    assert_eq!(statuses(&failed["stages"][0]["steps"]), ["succeeded", "failed", "skipped"]);
    assert_eq!(failed["stages"][0]["steps"][1]["exitCode"], 3);
    let log = site.log(failed["deploymentId"].as_str().unwrap()).await;
    assert_eq!(log, "fine\nbroken\nlockkeeper: the step exited with code 3\n");
    let environment = site.admin.environment(ENVIRONMENT).await.data();
    assert_has(&environment["lastDeployment"], json!({ "deploymentId": failed["deploymentId"], "status": "failed" }));
    assert_eq!(environment["currentDeployment"], Value::Null);
}

#[tokio::test]
async fn a_step_has_the_umask_that_the_server_was_started_with_and_not_the_servers_own() {
    let setup = Setup::default().under(&["sh", "-c", "umask 027; exec \"$@\"", "sh"]);
    let site = Site::start(setup, json!([stage("one", "umask; touch made; stat -c %a made")])).await;
    let done = site.run().await;
    assert_eq!(site.log(done["deploymentId"].as_str().unwrap()).await, "0027\n640\n");
}

#[tokio::test]
async fn a_program_that_is_not_there_fails_its_step_with_a_sentence() {
    let site = Site::with(json!([{ "name": "one", "steps": [{ "run": ["no-such-program", "x"] }] }])).await;
    let failed = site.run().await;
    assert_eq!(failed["status"], "failed");
    assert!(failed["error"].as_str().unwrap().contains("no-such-program"), "{failed:#}");
}

#[tokio::test]
async fn a_stage_that_takes_too_long_is_ended_with_all_it_has_started() {
    let script = "sleep 600 & echo $! > $TRACE; sleep 600";
    let site = Site::with(json!([stage_with("slow", script, json!({ "timeoutSeconds": 1 }))])).await;
    let failed = site.run().await;
    assert_eq!(failed["status"], "failed");
    assert!(failed["error"].as_str().unwrap().contains("1 s"), "{failed:#}");
    assert!(!crate::site::is_alive(&site.traced()[0]), "what it started is still there");
}

#[tokio::test]
async fn a_step_sees_what_it_is_given_and_nothing_of_the_servers_environment() {
    let setup = Setup::default().variable("LOCKKEEPER_LOG_FILTER", "info").variable("HOME", "/somewhere");
    let site = Site::start(setup, json!([{ "name": "show", "steps": [{ "run": ["env"] }] }])).await;
    site.admin.put(&at(ENVIRONMENT), json!({ "variables": { "TIER": "test", "PATH": "/bin:/usr/bin" } })).await.ok();
    let done = site.run().await;
    let log = site.log(done["deploymentId"].as_str().unwrap()).await;
    let mut names: Vec<_> = log.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.sort_unstable();
    let ours = ["COMMIT", "DEPLOYMENT", "ENVIRONMENT", "FENCING_TOKEN", "ORGANIZATION", "PIPELINE", "SESSION", "STAGE"];
    let mut expected: Vec<_> = ours.iter().map(|name| format!("LOCKKEEPER_{name}")).collect();
    expected.extend(["PATH", "TIER", "TRACE"].map(str::to_owned));
    assert_eq!(names, expected);
    for line in ["TIER=test", "PATH=/bin:/usr/bin", "LOCKKEEPER_STAGE=show", "LOCKKEEPER_FENCING_TOKEN=1"] {
        assert!(log.lines().any(|found| found == line), "{line} in {log}");
    }
}

#[tokio::test]
async fn arguments_are_passed_as_they_are_without_a_shell() {
    let run = json!({ "run": ["printf", "%s|", "$HOME", "a  b", "*", ""] });
    let site = Site::with(json!([{ "name": "print", "steps": [run] }])).await;
    let done = site.run().await;
    assert_eq!(site.log(done["deploymentId"].as_str().unwrap()).await, "$HOME|a  b|*||");
}

#[tokio::test]
async fn deploy_answers_200_if_it_finished_in_time_and_202_with_its_location_if_not() {
    let site = Site::with(json!([stage("wait", "while [ ! -e $TRACE ]; do sleep 0.05; done")])).await;
    let session = site.claim().await;
    let accepted = site.admin.deploy(ENVIRONMENT, &session, json!({ "commitId": "c0ffee1" })).await.has_status(202);
    let location = accepted.header("location").to_owned();
    assert_eq!(location, site.admin.path(&format!("/deployments/{}", id(&accepted))));
    let found = site.admin.send(site.admin.request(reqwest::Method::GET, &location)).await.ok().data();
    assert_eq!(found["deploymentId"], accepted.data()["deploymentId"]);
    let still = json!({ "commitId": "decade2", "waitSeconds": 1 });
    site.admin.deploy(ENVIRONMENT, &session, still).await.has_status(202);
    std::fs::write(&site.trace, "").unwrap();
    let body = json!({ "commitId": "deadbeef", "waitSeconds": 60 });
    let done = site.admin.deploy(ENVIRONMENT, &session, body).await.has_status(200).data();
    assert_eq!(done["status"], "succeeded");
    let session = site.admin.session(ENVIRONMENT, &session).await.data();
    let commits: Vec<_> = session["deployments"].as_array().unwrap().iter().map(|d| d["commitId"].clone()).collect();
    assert_eq!(commits, ["c0ffee1", "decade2", "deadbeef"]);
}

#[tokio::test]
async fn deployments_are_listed_newest_first_and_by_what_they_belong_to() {
    let site = Site::with(json!([stage("end", "[ $LOCKKEEPER_COMMIT = good ]")])).await;
    let session = site.claim().await;
    for commit in ["good", "bad"] {
        let body = json!({ "commitId": commit, "waitSeconds": 60 });
        site.admin.deploy(ENVIRONMENT, &session, body).await.has_status(200);
    }
    site.admin.claim("review-2", json!({ "commitId": "good" })).await.created();
    let commits = |answer: crate::support::Answer| -> Vec<String> {
        let list = answer.ok().data();
        list.as_array().unwrap().iter().map(|found| found["commitId"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(commits(site.admin.get("/deployments").await), ["good", "bad", "good"]);
    assert_eq!(commits(site.admin.get("/deployments?status=failed").await), ["bad"]);
    let of_session = format!("/deployments?sessionId={session}&limit=1");
    assert_eq!(commits(site.admin.get(&of_session).await), ["bad"]);
    assert_eq!(site.admin.get(&of_session).await.json()["pagination"]["total"], 2);
    assert_eq!(commits(site.admin.get("/deployments?envName=review-2&pipelineId=web").await), ["good"]);
    assert_eq!(commits(site.admin.get("/deployments?pipelineId=shop").await), [""; 0]);
    site.admin.get("/deployments?status=odd").await.refused(400, "invalid_parameter");
    let never = "/deployments/dep_000000000000000000000000";
    site.admin.get(never).await.refused(404, "deployment_not_found");
    site.admin.get(&format!("{never}/logs")).await.refused(404, "deployment_not_found");
}

/// Answers every request with this status, and returns the request.
async fn receiver(status: u16) -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let received = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        while !String::from_utf8_lossy(&got).contains("the end") {
            let mut buffer = [0; 4096];
            let read = socket.read(&mut buffer).await.unwrap();
            assert_ne!(read, 0, "{}", String::from_utf8_lossy(&got));
            got.extend_from_slice(&buffer[..read]);
        }
        let answer = format!("HTTP/1.1 {status} Done\r\nContent-Length: 7\r\nConnection: close\r\n\r\nthanks\n");
        socket.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(got).unwrap()
    });
    (address, received)
}

#[tokio::test]
async fn an_http_step_sends_what_it_says_with_the_variables_filled_in() {
    let (address, received) = receiver(201).await;
    let http = json!({
        "method": "PUT",
        "url": format!("http://{address}/deploy/${{LOCKKEEPER_ENVIRONMENT}}?commit=${{LOCKKEEPER_COMMIT}}"),
        "headers": { "X-Token": "${LOCKKEEPER_FENCING_TOKEN}" },
        "body": "{\"stage\": \"${LOCKKEEPER_STAGE}\", \"literal\": \"$${HOME}\"} the end",
        "expectStatus": 201,
    });
    let site = Site::with(json!([{ "name": "call", "steps": [{ "http": http }] }])).await;
    let session = site.claim().await;
    let body = json!({ "commitId": "feat/a&b", "waitSeconds": 60 });
    let done = site.admin.deploy(ENVIRONMENT, &session, body).await.has_status(200).data();
    assert_eq!(done["status"], "succeeded", "{done:#}");
    let request = received.await.unwrap();
    assert!(request.starts_with("PUT /deploy/review-1?commit=feat%2Fa%26b HTTP/1.1\r\n"), "{request}");
    assert!(request.to_lowercase().contains("\r\nx-token: 1\r\n"), "{request}");
    assert!(request.ends_with("{\"stage\": \"call\", \"literal\": \"${HOME}\"} the end"), "{request}");
    assert!(site.log(done["deploymentId"].as_str().unwrap()).await.contains("thanks"));
}

#[tokio::test]
async fn an_http_step_fails_by_another_status_and_by_a_variable_that_is_not_there() {
    let (address, _received) = receiver(500).await;
    let call = |body: &str| json!([{ "name": "call", "steps": [{ "http": { "url": format!("http://{address}/"), "body": body } }] }]);
    let site = Site::with(call("the end")).await;
    let session = site.claim().await;
    let body = json!({ "commitId": "c0ffee1", "waitSeconds": 60 });
    let failed = site.admin.deploy(ENVIRONMENT, &session, body.clone()).await.has_status(200).data();
    assert!(failed["error"].as_str().unwrap().contains("500"), "{failed:#}");
    site.put_stages(call("${NOBODY_SET_THIS}")).await;
    let failed = site.admin.deploy(ENVIRONMENT, &session, body).await.has_status(200).data();
    assert!(failed["error"].as_str().unwrap().contains("NOBODY_SET_THIS"), "{failed:#}");
}

#[tokio::test]
async fn a_deploy_that_is_sent_again_waits_for_the_end_like_the_first_time() {
    let site = Site::with(json!([stage("only", "while [ ! -e $TRACE ]; do sleep 0.05; done; exit 5")])).await;
    let session = site.claim().await;
    let deploy = |seconds: u32| {
        let body = json!({ "commitId": "c0ffee1", "waitSeconds": seconds });
        let place = format!("{}/sessions/{session}/deploy", at(ENVIRONMENT));
        let admin = &site.admin;
        async move { admin.post_with_key(&place, &format!("waits-{seconds}"), body).await }
    };
    let begun = deploy(0).await.has_status(202);
    std::fs::write(&site.trace, "").unwrap();
    let first = deploy(30).await.ok();
    let again = deploy(30).await.ok();
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!((again.data(), again.header("location")), (first.data(), first.header("location")));
    assert_eq!(first.data()["status"], "failed");
    assert_eq!(deploy(0).await.has_status(202).data(), begun.data(), "who did not wait gets what was then");
}
