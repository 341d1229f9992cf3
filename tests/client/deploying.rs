//! `deploy`: with and without waiting for the end.

use crate::program::User;
use crate::support::{Server, Setup};

const STAGED: &str = r#"
[organization]
id = "acme"
name = "Acme"

[[members]]
name = "admin"
role = "admin"

[[pipelines]]
id = "web"
[[pipelines.stages]]
name = "build"
steps = [{ run = ["sh", "-c", "test $LOCKKEEPER_COMMIT != bad1"] }]
[[pipelines.stages]]
name = "ship"
steps = [{ run = ["true"] }]
[[pipelines.environments]]
name = "review-1"
"#;

#[tokio::test]
async fn a_deployment_is_started_or_waited_for() {
    let server = Setup::default().organization(STAGED).start();
    let admin = User::admin(&server);
    admin.run(&["deploy", "review-1", "c0ffee1"]).with_code(66).complains("you have no session in review-1");
    admin.run(&["claim", "review-1", "--ttl", "600"]).ok();
    let started = admin.json(&["deploy", "review-1", "c0ffee1"]);
    assert_eq!(started["commitId"], "c0ffee1");
    admin.run(&["deploy", "review-1", "decade2", "--wait"]).ok().says("decade2 succeeded");
    let ended = admin.json(&["deploy", "web/review-1", "decade2", "--wait", "60"]);
    assert_eq!(ended["status"], "succeeded");
    let failed = admin.run(&["deploy", "review-1", "bad1", "--wait", "60"]).with_code(1);
    failed.says("bad1 failed").complains("the deployment of bad1 failed");
    admin.run(&["deploy", "review-1"]).with_code(2);
    admin.run(&["deploy", "review-1", "not a commit"]).with_code(2).complains("commitId");
    admin.run(&["env", "review-1"]).ok().says("deployed:");
}

#[tokio::test]
async fn a_deployment_that_takes_too_long_is_not_waited_for() {
    let server = Server::start();
    let admin = User::admin(&server).with("LOCKKEEPER_PIPELINE", "shop");
    admin.run(&["claim", "staging-1", "--ttl", "600"]).ok();
    // Its second stage waits for an approval that never comes.
    let late = admin.run(&["deploy", "staging-1", "c0ffee1", "--wait", "1"]).with_code(124);
    late.complains("has not ended in time");
    admin.run(&["release", "staging-1"]).ok();
}
