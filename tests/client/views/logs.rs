//! `logs`: whole, filtered, followed, through a restart of the server.

use serde_json::json;

use super::{Detour, Running, deploy, finished, put_stages};
use crate::program::User;
use crate::support::Server;

#[tokio::test]
async fn a_log_is_printed_as_it_was_written() {
    let server = Server::start();
    let (admin, user) = (server.admin(), User::admin(&server));
    user.run(&["logs", "review-1"]).with_code(66).complains("nothing was deployed to review-1 yet");
    put_stages(
        &server,
        json!([{ "name": "build", "steps": [{ "name": "one", "run": ["printf", "a\\033[31mb\\nc"] }] },
               { "name": "test", "steps": [{ "name": "two", "run": ["echo", "tested"] }] }]),
    )
    .await;
    let deployment = deploy(&admin, "c0ffee1").await;
    finished(&admin, &deployment).await;
    let written = admin.get(&format!("/deployments/{deployment}/logs")).await.ok().text;
    assert_eq!(user.run(&["logs", &deployment]).ok().stdout, written);
    assert_eq!(user.run(&["logs", "web/review-1"]).ok().stdout, written);
    assert_eq!(user.run(&["logs", "review-1", "--stage", "test"]).ok().stdout, "tested\n");
    let with = User::admin(&server).with("LOCKKEEPER_ENVIRONMENT", "review-1");
    let timed = with.run(&["logs", "--step", "two", "--times"]).ok();
    assert!(timed.stdout.ends_with(" test/two  tested\n"), "{}", timed.stdout);
    let lines = user.run(&["logs", "review-1", "--json"]).ok().stdout;
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["stage"], &last["text"]), (&json!("test"), &json!("tested")));
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let server = Server::start();
    let user = User::admin(&server);
    user.run(&["logs", "dep_000000000000000000000000"]).with_code(66);
    user.run(&["logs", "nope"]).with_code(66);
    user.run(&["logs", "a/b/c"]).with_code(2);
    user.run(&["logs"]).with_code(2).complains("name a deployment");
    user.without("LOCKKEEPER_TOKEN").run(&["logs", "review-1"]).with_code(77);
}

#[tokio::test]
async fn a_followed_log_ends_with_its_deployment_and_tells_how() {
    let server = Server::start();
    let (admin, user) = (server.admin(), User::admin(&server));
    let script = "echo begun; test $LOCKKEEPER_COMMIT != bad1";
    put_stages(&server, json!([{ "name": "build", "steps": [{ "run": ["sh", "-c", script] }] }])).await;
    let good = deploy(&admin, "c0ffee1").await;
    let followed = user.run(&["logs", "-f", "review-1"]).ok().says("begun\n");
    followed.complains(&format!("deployment {good} succeeded"));
    admin.delete("/pipelines/web/ephemeral-environments/review-1/lock").await.ok();
    let bad = deploy(&admin, "bad1").await;
    let followed = user.run(&["logs", "-f", &bad]).with_code(1).says("begun\n");
    followed.complains(&format!("deployment {bad} failed: "));
    user.run(&["logs", &bad]).ok();
}

#[tokio::test]
async fn an_approval_that_a_followed_log_waits_for_is_told() {
    let server = Server::start();
    let (admin, user) = (server.admin(), User::admin(&server));
    let stages = json!([{ "name": "ship", "approval": "always", "steps": [{ "run": ["echo", "shipped"] }] }]);
    put_stages(&server, stages).await;
    let deployment = deploy(&admin, "c0ffee1").await;
    let mut following = user.command(&["logs", "-f", &deployment]).spawn().unwrap();
    let told = {
        let mut stderr = std::io::BufReader::new(following.stderr.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut stderr, &mut line).unwrap();
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        line
    };
    assert!(told.starts_with("stage ship waits for an approval: lockkeeper approve apr_"), "{told}");
    user.run(&["approve", told.trim_end().rsplit(' ').next().unwrap()]).ok();
    let ended = following.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8(ended.stdout).unwrap().as_str()), (Some(0), "shipped\n"));
}

#[tokio::test]
async fn a_followed_log_survives_a_restart_of_the_server() {
    let mut server = Server::start();
    let detour = Detour::to(&server);
    let (admin, user) = (server.admin(), User::admin(&server).with("LOCKKEEPER_URL", &detour.address));
    let stages = json!([
        { "name": "build", "steps": [{ "run": ["echo", "built"] }] },
        { "name": "ship", "approval": "always", "steps": [{ "run": ["echo", "shipped"] }] },
    ]);
    put_stages(&server, stages).await;
    let deployment = deploy(&admin, "c0ffee1").await;
    let following = Running::start(&user, &["logs", "-f", "--retry", "60", &deployment]);
    following.until("built");
    admin.until(&format!("/deployments/{deployment}"), |found| found["status"] == "awaiting_approval").await;
    server.kill();
    server.start_again();
    detour.lead_to(&server);
    user.run(&["approve", &deployment]).ok();
    assert_eq!(following.until("shipped"), "shipped");
    assert_eq!(following.end(), 0);
}
