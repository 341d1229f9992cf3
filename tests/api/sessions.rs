//! Claim, wait, deploy, keep alive, release and force-claim, as clients see them.

mod any;
mod asking;
mod fencing;
mod force_claim;
mod idempotency;
mod leases;
mod listing;
mod lock;
mod per_token;
mod queue;
mod reset;
mod restarts;
mod vanishing;
mod warnings;
mod watching;

use crate::support::{Client, Server, assert_fields, assert_has, assert_is_time, at};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

#[tokio::test]
async fn a_claim_takes_the_lock_and_says_where_the_session_is() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let body = json!({ "commitId": "c0ffee1", "context": "PR 412" });
    let claimed = ana.claim("review-1", body).await.created();
    let session = claimed.data();
    assert_has(&session, json!({ "lockStatus": "active", "fencingToken": 1 }));
    let place = ana.path(&format!("{}/sessions/{}", at("review-1"), claimed.session()));
    assert_eq!(claimed.header("location"), place);
    assert_eq!(ana.send(ana.request(Method::GET, &place)).await.ok().data(), session);
    let environment = ana.environment("review-1").await.ok().data();
    assert_eq!(environment["lock"]["sessionId"], session["sessionId"]);
}

#[tokio::test]
async fn a_session_shows_every_field_of_the_contract() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let body = json!({ "commitId": "c0ffee1", "context": "PR 412" });
    let session = ana.claim("review-1", body).await.created().data();
    assert_fields(
        &session,
        "sessionId envName lockStatus overridden user commitId context priority queuePosition fencingToken createdAt \
         claimedAt expiresAt endedAt endedBy endReason warning deployments deploymentCount",
    );
    assert_has(
        &session,
        json!({
            "envName": "review-1", "lockStatus": "active", "overridden": false, "commitId": "c0ffee1",
            "context": "PR 412", "priority": 0, "queuePosition": null, "endedAt": null, "endedBy": null,
            "endReason": null, "warning": null, "deploymentCount": 1,
        }),
    );
    assert_eq!(session["user"]["name"], "ana");
    assert_is_time(&session["createdAt"]);
    assert_is_time(&session["claimedAt"]);
    assert_is_time(&session["expiresAt"]);
    let deployment = &session["deployments"][0];
    assert_fields(deployment, "deploymentId commitId status createdAt startedAt finishedAt error");
    for (id, prefix) in
        [(&session["sessionId"], "ses_"), (&session["user"]["userId"], "usr_"), (&deployment["deploymentId"], "dep_")]
    {
        assert!(id.as_str().unwrap().starts_with(prefix), "{id}");
    }
}

#[tokio::test]
async fn a_claim_of_a_taken_environment_says_who_holds_it_and_when_to_come_back() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let body = json!({ "commitId": "c0ffee1", "context": "PR 412" });
    let held = ana.claim("review-1", body).await.created().data();
    let refused = ben.claim("review-1", json!({})).await.refused(409, "environment_locked");
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    let holder = json!({
        "sessionId": held["sessionId"], "user": held["user"], "commitId": "c0ffee1", "context": "PR 412",
        "claimedAt": held["claimedAt"], "expiresAt": held["expiresAt"], "fencingToken": 1,
    });
    assert_has(&refused.json(), json!({ "holder": holder, "queueLength": 0, "retryAfterSeconds": seconds }));
    // The holder cannot get a second session either.
    let again = ana.claim("review-1", json!({})).await;
    again.refused(409, "environment_locked");
}

#[tokio::test]
async fn a_claim_needs_neither_a_body_nor_a_content_type() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let request = ana.request(Method::POST, &ana.path(&format!("{}/sessions", at("review-1"))));
    let session = ana.send(request).await.created().data();
    assert_has(&session, json!({ "commitId": null, "context": null, "deployments": [] }));
}

#[tokio::test]
async fn a_claim_deploys_its_commit_unless_the_environment_says_otherwise() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let claim = json!({ "commitId": "c0ffee1" });
    let session = mia.claim("review-1", claim.clone()).await.created().data();
    let deployment = &session["deployments"][0];
    assert_has(deployment, json!({ "commitId": "c0ffee1", "status": "succeeded" }));
    let last = &mia.environment("review-1").await.data()["lastDeployment"];
    assert_eq!(last["deploymentId"], deployment["deploymentId"]);

    mia.put(&at("quiet"), json!({ "deployOnClaim": false })).await.created();
    for claimed in [mia.claim("quiet", claim.clone()).await, mia.force_claim("quiet", claim).await] {
        let session = claimed.created().data();
        assert_has(&session, json!({ "commitId": "c0ffee1", "deployments": [] }));
    }
}

#[tokio::test]
async fn a_context_comes_back_letter_for_letter() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let longest = "🚢".repeat(1024);
    let odd = "Ægir\n\tשלום 日本語 e\u{301} \u{202e} \"quoted\\\" 👩‍🚀";
    for context in [odd, &longest, ""] {
        let body = json!({ "context": context });
        let session = ana.claim("review-1", body).await.created().session();
        assert_eq!(ana.session("review-1", &session).await.data()["context"], context);
        ana.release("review-1", &session).await.ok();
    }
    let refused = ana.claim("review-1", json!({ "context": longest + "x" })).await;
    assert_eq!(refused.faulty_fields(), ["context"]);
}

#[tokio::test]
async fn a_deployment_is_answered_in_full_and_stands_in_its_session() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let session = ana.claim("review-1", json!({})).await.created().session();
    let body = json!({ "commitId": "decade2" });
    let accepted = ana.deploy("review-1", &session, body).await.has_status(202);
    let deployment = accepted.data();
    assert_fields(
        &deployment,
        "deploymentId pipelineId envName sessionId commitId fencingToken user status stages retriedBy createdAt startedAt \
         finishedAt \
         error",
    );
    assert_has(
        &deployment,
        json!({
            "pipelineId": "web", "envName": "review-1", "sessionId": session, "commitId": "decade2",
            "fencingToken": 1, "status": "succeeded", "stages": [], "error": null,
        }),
    );
    let place = ana.request(Method::GET, accepted.header("location"));
    assert_eq!(ana.send(place).await.ok().data(), deployment);
    let found = ana.session("review-1", &session).await.ok().data();
    assert_eq!(found["deployments"][0]["deploymentId"], deployment["deploymentId"], "{found}");
    assert_eq!(found["deploymentCount"], 1);
    let missing = ana.deploy("review-1", &session, json!({})).await;
    assert_eq!(missing.refused(422, "invalid_request").faulty_fields(), ["commitId"]);
}

#[tokio::test]
async fn a_deployment_that_is_waited_for_is_answered_when_it_has_finished() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let session = ana.claim("review-1", json!({})).await.created().session();
    for (wait, status) in [(json!(300), 200), (json!(1), 200), (json!(0), 202), (Value::Null, 202)] {
        let body = json!({ "commitId": "c0ffee1", "waitSeconds": wait });
        let deployed = ana.deploy("review-1", &session, body).await.has_status(status);
        assert_eq!(deployed.data()["status"], "succeeded");
        let id = deployed.data()["deploymentId"].as_str().unwrap().to_owned();
        assert_eq!(deployed.header("location"), ana.path(&format!("/deployments/{id}")));
    }
}

#[tokio::test]
async fn a_session_lists_its_newest_hundred_deployments_and_counts_them_all() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let claimed = ana.claim("review-1", json!({ "commitId": "c0" })).await;
    let session = claimed.created().session();
    for number in 1..103 {
        let body = json!({ "commitId": format!("c{number}") });
        ana.deploy("review-1", &session, body).await.has_status(202);
    }
    let found = ana.session("review-1", &session).await.ok().data();
    let listed = found["deployments"].as_array().unwrap().iter();
    let commits: Vec<_> = listed.map(|deployment| deployment["commitId"].clone()).collect();
    let newest: Vec<_> = (3..103).map(|number| json!(format!("c{number}"))).collect();
    assert_eq!(commits, newest);
    assert_eq!(found["deploymentCount"], 103);
}

#[tokio::test]
async fn a_release_frees_the_lock_and_repeating_it_changes_nothing() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let session = ana.claim("review-1", json!({})).await.created().session();
    let released = ana.release("review-1", &session).await.ok().data();
    let by = json!({ "userId": released["user"]["userId"], "name": "ana", "sessionId": null });
    let expected = json!({ "lockStatus": "released", "overridden": false, "endedBy": by, "endReason": null });
    assert_has(&released, expected);
    assert_is_time(&released["endedAt"]);
    assert_eq!(ana.environment("review-1").await.data()["lock"], Value::Null);
    let next = ben.claim("review-1", json!({})).await.created().session();
    assert_eq!(ana.release("review-1", &session).await.ok().data(), released);
    assert_eq!(ana.session("review-1", &session).await.ok().data(), released);
    assert_eq!(ben.environment("review-1").await.data()["lock"]["sessionId"], next);
}

#[tokio::test]
async fn a_released_session_cannot_deploy() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let session = ana.claim("review-1", json!({})).await.created().session();
    let released = ana.release("review-1", &session).await.ok().data();
    let refused = ana.deploy("review-1", &session, json!({ "commitId": "c0ffee1" })).await;
    assert_has(
        &refused.refused(409, "session_released").json(),
        json!({ "endedAt": released["endedAt"], "endedBy": released["endedBy"] }),
    );
}

#[tokio::test]
async fn somebody_elses_session_is_theirs_and_a_maintainer_may_release_it() {
    let server = Server::start();
    let (ana, ben) = (server.as_user("ana").await, server.as_user("ben").await);
    let mia = server.as_user("mia").await;
    let session = ana.claim("review-1", json!({})).await.created().session();
    let deploy = json!({ "commitId": "c0ffee1" });
    for refused in [
        ben.release("review-1", &session).await,
        ben.deploy("review-1", &session, deploy.clone()).await,
        mia.deploy("review-1", &session, deploy).await,
    ] {
        let told = refused.refused(403, "not_session_holder").json();
        assert_eq!(told["holder"]["user"]["name"], "ana");
    }
    assert_eq!(ben.session("review-1", &session).await.data()["lockStatus"], "active");
    let released = mia.release("review-1", &session).await.ok().data();
    assert_eq!(released["lockStatus"], "released");
    assert_eq!(released["endedBy"]["name"], "mia");
    // Its end does not make it available to others either.
    let late = ben.release("review-1", &session).await;
    late.refused(403, "not_session_holder");
}

#[tokio::test]
async fn a_second_token_of_the_same_user_carries_on_with_the_session() {
    let server = Server::start();
    let (ana, also_ana) = (server.as_user("ana").await, server.as_user("ana").await);
    let session = ana.claim("review-1", json!({})).await.created().session();
    let body = json!({ "commitId": "c0ffee1" });
    also_ana.deploy("review-1", &session, body).await.has_status(202);
    also_ana.release("review-1", &session).await.ok();
}

#[tokio::test]
async fn a_disabled_environment_is_not_handed_out_but_its_holder_may_finish() {
    let server = Server::start();
    let (mia, ana) = (server.as_user("mia").await, server.as_user("ana").await);
    let session = ana.claim("review-1", json!({})).await.created().session();
    mia.put(&at("review-1"), json!({ "disabled": true })).await.ok();
    assert_eq!(ana.environment("review-1").await.data()["lockStatus"], "locked");
    let body = json!({ "commitId": "c0ffee1" });
    ana.deploy("review-1", &session, body).await.has_status(202);
    for refused in [mia.claim("review-1", json!({})).await, mia.force_claim("review-1", json!({})).await] {
        refused.refused(409, "environment_disabled");
    }
    ana.release("review-1", &session).await.ok();
    assert_eq!(ana.environment("review-1").await.data()["lockStatus"], "disabled");
    let refused = ana.claim("review-1", json!({})).await;
    refused.refused(409, "environment_disabled");
    mia.put(&at("review-1"), json!({ "disabled": false })).await.ok();
    ana.claim("review-1", json!({})).await.created();
}

#[tokio::test]
async fn fencing_tokens_rise_by_one_through_deletion_and_restarts() {
    let mut server = Server::start();
    let admin = server.admin();
    assert_eq!(claim_and_release(&admin).await, 1);
    for expected in 2..=3 {
        let forced = admin.force_claim("review-1", json!({})).await.created();
        assert_eq!(forced.data()["fencingToken"], expected);
        // A refused claim uses no token.
        let refused = admin.claim("review-1", json!({})).await;
        refused.refused(409, "environment_locked");
    }
    let held = admin.environment("review-1").await.data()["lock"]["sessionId"].clone();
    admin.release("review-1", held.as_str().unwrap()).await.ok();
    admin.delete(&at("review-1")).await.has_status(204);
    admin.put(&at("review-1"), json!({})).await.created();
    assert_eq!(claim_and_release(&admin).await, 4);
    assert!(server.terminate().success());
    server.start_again();
    assert_eq!(claim_and_release(&server.admin()).await, 5);
    server.kill();
    server.start_again();
    assert_eq!(claim_and_release(&server.admin()).await, 6);
}

#[tokio::test]
async fn a_session_that_has_not_changed_is_not_sent_again() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let session = ana.claim("review-1", json!({})).await.created().session();
    let path = ana.path(&format!("{}/sessions/{session}", at("review-1")));
    let unless = async |etag: &str| ana.send(ana.request(Method::GET, &path).header("If-None-Match", etag)).await;
    let first = ana.session("review-1", &session).await.ok().header("etag").to_owned();
    for known in [&first, &format!("\"other\", W/{first}"), "*"] {
        let unchanged = unless(known).await;
        assert_eq!((unchanged.status, &*unchanged.text), (StatusCode::NOT_MODIFIED, ""));
        assert_eq!(unchanged.header("etag"), first);
    }
    ana.deploy("review-1", &session, json!({ "commitId": "c0ffee1" })).await;
    let second = unless(&first).await.ok().header("etag").to_owned();
    ana.release("review-1", &session).await.ok();
    let third = unless(&second).await.ok().header("etag").to_owned();
    assert!(first != second && second != third && third != first);
}

#[tokio::test]
async fn both_readings_of_the_path_lead_to_the_same_session() {
    let server = Server::start();
    let ana = server.as_user("ana").await;
    let list = "/organizations/acme/pipelines/web/ephemeral-environments";
    let claim = ana.request(Method::POST, &format!("{list}/review-1/sessions/"));
    let claimed = ana.send(claim).await.created();
    let session = claimed.session();
    assert_eq!(ana.session("review-1", &session).await.ok().data(), claimed.data());
    let short = format!("{list}/review-1/sessions/{session}");
    for path in [&short, &format!("{short}/")] {
        let found = ana.send(ana.request(Method::GET, path)).await.ok();
        assert_eq!(found.data(), claimed.data(), "{path}");
    }
    let deploy = ana.request(Method::POST, &format!("{short}/deploy"));
    let deployed = ana.send(deploy.json(&json!({ "commitId": "c0ffee1" }))).await;
    deployed.has_status(202);
    let released = ana.send(ana.request(Method::DELETE, &short)).await.ok();
    assert_eq!(released.data()["lockStatus"], "released");
    for rest in ["", "/", "/review-1", "/review-1/", "/review-1/history", "/review-1/history/"] {
        ana.send(ana.request(Method::GET, &format!("{list}{rest}"))).await.ok();
    }
    let force = ana.request(Method::POST, &format!("{list}/review-1/force-claim"));
    ana.send(force).await.created();
}

#[tokio::test]
async fn what_does_not_exist_is_told_apart() {
    let server = Server::start();
    let admin = server.admin();
    let elsewhere = admin.claim("review-2", json!({})).await.created().session();
    for (base, session, code) in [
        (at("review-1"), elsewhere.as_str(), "session_not_found"),
        (at("review-1"), "ses_0199f3c2a4b07f3e9d2c5a1b2a", "session_not_found"),
        (at("review-1"), "ses_", "session_not_found"),
        (at("review-1"), "%00", "session_not_found"),
        (at("nowhere"), &elsewhere, "environment_not_found"),
        (at("review-2").replace("web", "shop"), &elsewhere, "environment_not_found"),
        (at("review-2").replace("web", "nowhere"), &elsewhere, "pipeline_not_found"),
    ] {
        let place = format!("{base}/sessions/{session}");
        admin.get(&place).await.refused(404, code);
        admin.delete(&place).await.refused(404, code);
        let body = json!({ "commitId": "c0ffee1" });
        admin.post(&format!("{place}/deploy"), body).await.refused(404, code);
        if code != "session_not_found" {
            for rest in ["sessions", "force-claim"] {
                let claim = admin.post(&format!("{base}/{rest}"), json!({})).await;
                claim.refused(404, code);
            }
        }
    }
}

async fn claim_and_release(client: &Client) -> u64 {
    let claimed = client.claim("review-1", json!({})).await.created();
    client.release("review-1", &claimed.session()).await.ok();
    claimed.data()["fencingToken"].as_u64().unwrap()
}
