//! Pipelines, secrets, members, their tokens and sign-ins.

use reqwest::Method;
use serde_json::{Value, json};

use super::users::{Expected, Users, signed_in};
use crate::events::text;
use crate::support::secrecy;

pub async fn pipelines(users: &Users) -> Vec<Expected> {
    const PLACE: &str = "/pipelines/told";
    let made = users.mia.act("PUT", PLACE, json!({ "name": "Told" })).await;
    let changed = users.mia.act("PUT", PLACE, json!({ "name": "Told of" })).await;
    let stopped = users.mia.act("POST", &format!("{PLACE}/stop"), json!({ "reason": "freeze" })).await;
    let resumed = users.mia.act("POST", &format!("{PLACE}/resume"), json!({})).await;
    let deleted = users.mia.act("DELETE", PLACE, Value::Null).await;
    vec![
        made.by("pipeline.created").within("told").having(json!({ "name": "Told" })),
        changed.by("pipeline.updated").within("told").having(json!({ "name": "Told of" })),
        stopped.by("pipeline.stopped").within("told").having(json!({ "reason": "freeze" })),
        resumed.by("pipeline.resumed").within("told").having(json!({})),
        deleted.by("pipeline.deleted").within("told").having(json!({})),
    ]
}

pub async fn secrets(users: &Users) -> Vec<Expected> {
    const VALUE: &str = "correct-horse-battery-staple";
    let made = users.mia.act("POST", "/secrets", json!({ "name": "TOLD", "value": VALUE })).await;
    let changed = users.mia.act("PUT", "/secrets/TOLD", json!({ "value": format!("{VALUE}-2") })).await;
    let deleted = users.mia.act("DELETE", "/secrets/TOLD", Value::Null).await;
    vec![
        made.by("secret.created").having(json!({ "name": "TOLD", "version": 1 })),
        changed.by("secret.updated").having(json!({ "name": "TOLD", "version": 2 })),
        deleted.by("secret.deleted").having(json!({ "name": "TOLD" })),
    ]
}

pub async fn people(users: &Users) -> Vec<Expected> {
    let added = users.admin.act("POST", "/members", json!({ "name": "zoe", "role": "viewer" })).await;
    let zoe = added.answer.data();
    let place = format!("/members/{}", text(&zoe, "userId"));
    let raised = users.admin.act("PATCH", &place, json!({ "role": "developer" })).await;
    let (hers, other) = (json!({ "name": "hers", "user": "zoe" }), json!({ "name": "other", "user": "zoe" }));
    let (hers, other) =
        (users.admin.act("POST", "/tokens", hers).await, users.admin.act("POST", "/tokens", other).await);
    let id = |made: &super::users::Change| text(&made.answer.data(), "tokenId").to_owned();
    let revoked = users.admin.act("DELETE", &format!("/tokens/{}", id(&hers)), Value::Null).await;
    let removed = users.admin.act("DELETE", &place, Value::Null).await;
    let she = json!({ "userId": zoe["userId"], "name": "zoe" });
    vec![
        added.by("member.added").having(she.clone()),
        raised.by("member.updated").having(json!({ "role": "developer", "previousRole": "viewer" })),
        hers.by("token.created").having(json!({ "tokenId": id(&hers), "userId": zoe["userId"] })),
        revoked.by("token.revoked").having(json!({ "tokenId": id(&hers) })),
        // A removed member has no token left.
        removed.by("token.revoked").having(json!({ "tokenId": id(&other) })),
        removed.by("member.removed").having(she),
    ]
}

pub async fn jobs(users: &Users) -> Vec<Expected> {
    let (anonymous, identity) = (users.anonymous(), users.issuer.token(json!({})));
    secrecy::note(&identity);
    let form = format!(
        "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token={identity}\
         &subject_token_type=urn:ietf:params:oauth:token-type:id_token"
    );
    let request = anonymous.request(Method::POST, "/api/v1/organizations/acme/tokens/exchange");
    let request = request.header("X-Request-Id", "exchanging");
    let request = request.header("Content-Type", "application/x-www-form-urlencoded").body(form);
    let exchanged = anonymous.send(request).await.ok().json();
    secrecy::note(text(&exchanged, "access_token"));
    let job = users.with_token(text(&exchanged, "access_token"));
    let me = job.send(job.request(Method::GET, "/api/v1/whoami")).await.ok().data();
    let (token, subject) = (&me["token"]["tokenId"], &me["token"]["name"]);
    let data = json!({ "tokenId": token, "subject": subject, "issuer": users.issuer.url(), "name": "ci" });
    vec![signed_in("token.exchanged", &me["user"], token, "exchanging").having(data)]
}

pub async fn browsers(users: &Users) -> Vec<Expected> {
    let added = users.admin.act("POST", "/members", json!({ "name": "sid", "role": "viewer" })).await;
    let sid = added.answer.data();
    let place = format!("/members/{}/invitation", text(&sid, "userId"));
    let invited = users.admin.act("POST", &place, json!({})).await;
    let link = invited.answer.data();
    let invitation = text(&link, "url").split('#').nth(1).unwrap();
    let browser = users.anonymous();
    let send = async |method: Method, path: &str, id: &str, cookie: &str, body: Value| {
        let request = browser.request(method, path).header("X-Request-Id", id).header("Cookie", cookie);
        let answer = browser.send(request.header("Sec-Fetch-Site", "same-origin").json(&body)).await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
        answer
    };
    let path = format!("/auth/invitations/{invitation}");
    let accepted = send(Method::POST, &path, "accepting", "", json!({ "password": "correct horse" })).await;
    let cookie = accepted.header("set-cookie").split(';').next().unwrap();
    let sign_in = send(Method::GET, "/auth/sign-ins", "looking", cookie, json!({})).await.data()[0]["signInId"].clone();
    send(Method::POST, "/auth/sign-out", "leaving", cookie, json!({})).await;
    let who = json!({ "userId": sid["userId"], "name": "sid" });
    let how = json!({ "userId": sid["userId"], "signInId": sign_in, "method": "invitation" });
    vec![
        invited.by("member.invited").having(who.clone()),
        signed_in("member.password_changed", &sid, &sign_in, "accepting").having(who),
        signed_in("member.signed_in", &sid, &sign_in, "accepting").having(how),
        signed_in("member.signed_out", &sid, &sign_in, "leaving").having(json!({ "signIns": 1 })),
    ]
}
