//! `onRelease`: the deployment that resets an environment before anybody else gets it.

use serde_json::{Value, json};

use crate::support::{Server, assert_has, at};

#[tokio::test]
async fn a_release_deploys_the_commit_of_its_reset_and_the_environment_is_free_again() {
    let server = Server::start();
    let (ana, mia) = (server.as_user("ana").await, server.as_user("mia").await);
    let configuration = json!({ "onRelease": { "commitId": "main" } });
    let made = mia.put(&at("clean"), configuration.clone()).await.created().data();
    assert_has(&made["configuration"], configuration);
    assert_eq!(made["lastDeployment"], Value::Null, "nothing is put in order that nobody has used");

    let session = ana.claim("clean", json!({ "commitId": "c0ffee1" })).await.created().session();
    assert_eq!(ana.environment("clean").await.data()["lastDeployment"]["commitId"], "c0ffee1");
    let released = ana.release("clean", &session).await.ok().data();
    assert_eq!(released["deploymentCount"], 1, "the reset is none of the session's deployments");
    let free = ana.environment("clean").await.ok().data();
    assert_has(
        &free,
        json!({ "lockStatus": "unlocked", "lock": null, "currentDeployment": null, "disabledReason": null }),
    );
    assert_has(&free["lastDeployment"], json!({ "commitId": "main", "status": "succeeded" }));
    assert_eq!(free["lastDeployment"]["finishedAt"], released["endedAt"]);
}

#[tokio::test]
async fn an_expiry_puts_it_in_order_for_the_next_in_line_and_a_force_claim_does_not() {
    let server = Server::start();
    let admin = server.admin();
    admin.put(&at("clean"), json!({ "onRelease": { "commitId": "main" } })).await.created();
    admin.claim("clean", json!({ "commitId": "c0ffee1", "ttlSeconds": 1 })).await.created();
    let next = admin.wait_in_line("clean", json!({ "waitSeconds": 50 }), 1).await;
    let granted = next.await.unwrap().created();
    assert_eq!(granted.data()["deploymentCount"], 0);
    let found = admin.environment("clean").await.ok().data();
    assert_eq!(found["lock"]["sessionId"], granted.session());
    assert_eq!(found["lastDeployment"]["commitId"], "main");

    admin.deploy("clean", &granted.session(), json!({ "commitId": "decade2" })).await.has_status(202);
    let forced = admin.force_claim("clean", json!({})).await.created().session();
    assert_eq!(admin.environment("clean").await.data()["lastDeployment"]["commitId"], "decade2");
    // The configuration at the time of the release applies.
    admin.put(&at("clean"), json!({ "onRelease": null })).await.ok();
    admin.release("clean", &forced).await.ok();
    assert_eq!(admin.environment("clean").await.data()["lastDeployment"]["commitId"], "decade2");
}

#[tokio::test]
async fn a_reset_outlives_a_kill() {
    let mut server = Server::start();
    let admin = server.admin();
    admin.put(&at("clean"), json!({ "onRelease": { "commitId": "main" } })).await.created();
    let session = admin.claim("clean", json!({ "commitId": "c0ffee1" })).await.created().session();
    admin.release("clean", &session).await.ok();
    let before = admin.environment("clean").await.ok().data();
    server.kill();
    server.start_again();
    assert_eq!(server.admin().environment("clean").await.ok().data(), before);
    server.admin().claim("clean", json!({})).await.created();
}

#[tokio::test]
async fn a_reset_that_says_not_what_to_deploy_is_refused() {
    let server = Server::start();
    let admin = server.admin();
    let cases: [(Value, &[&str]); 10] = [
        (json!("main"), &["onRelease"]),
        (json!(true), &["onRelease"]),
        (json!(["main"]), &["onRelease"]),
        (json!({}), &["onRelease.commitId"]),
        (json!({ "commitId": null }), &["onRelease.commitId"]),
        (json!({ "commitId": 7 }), &["onRelease.commitId"]),
        (json!({ "commitId": "" }), &["onRelease.commitId"]),
        (json!({ "commitId": "-rf" }), &["onRelease.commitId"]),
        (json!({ "commitId": "main", "stages": [] }), &["onRelease.stages"]),
        (json!({ "commit": "main" }), &["onRelease.commitId", "onRelease.commit"]),
    ];
    for (reset, expected) in cases {
        let refused = admin.put(&at("clean"), json!({ "onRelease": reset })).await;
        assert_eq!(refused.refused(422, "invalid_request").faulty_fields(), expected, "{reset}");
    }
    admin.environment("clean").await.refused(404, "environment_not_found");
}
