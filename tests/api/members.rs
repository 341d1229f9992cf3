//! Members over the API: who may be one, their roles and tokens, and the influence of files.

use crate::support::waiting::column;
use crate::support::{Answer, Client, Server, Setup, assert_fields, assert_has, assert_is_time, at};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

const ACME: &str = include_str!("../../config/acme.toml");
const NOBODY: &str = "/members/usr_0199f3c2a4b07f3e9d2c5a1b";

#[tokio::test]
async fn a_member_is_added_shown_given_another_role_and_removed() {
    let server = Server::start();
    let admin = server.admin();
    let made = admin.post("/members", json!({ "name": "zoe", "role": "developer" })).await.created();
    let zoe = made.data();
    assert_fields(&zoe, "userId name role email disabled createdAt tokenCount hasPassword lastSignInAt");
    assert_has(&zoe, json!({ "name": "zoe", "role": "developer", "tokenCount": 0, "email": null, "disabled": false }));
    assert_is_time(&zoe["createdAt"]);
    assert!(zoe["userId"].as_str().unwrap().starts_with("usr_"), "{zoe}");
    let path = path_of(&zoe);
    assert_eq!(made.header("location"), admin.path(&path));
    assert_eq!(admin.get(&path).await.ok().data(), zoe);

    server.as_user("zoe").await;
    let changed = patch(&admin, &path, json!({ "role": "maintainer" })).await.ok().data();
    assert_has(&changed, json!({ "userId": zoe["userId"], "name": "zoe", "role": "maintainer", "tokenCount": 1 }));
    assert_eq!(changed["createdAt"], zoe["createdAt"]);
    assert_eq!(patch(&admin, &path, json!({ "role": "maintainer" })).await.ok().data(), changed);
    assert_eq!(admin.get(&path).await.ok().data(), changed);

    admin.delete(&path).await.has_status(204);
    admin.delete(&path).await.refused(404, "member_not_found");
    admin.get(&path).await.refused(404, "member_not_found");
    patch(&admin, &path, json!({ "role": "viewer" })).await.refused(404, "member_not_found");
    for id in ["usr_", "zoe", "%00", "tok_0199f3c2a4b07f3e9d2c5a1b"] {
        admin.get(&format!("/members/{id}")).await.refused(404, "member_not_found");
    }
}

#[tokio::test]
async fn every_member_sees_who_is_in_the_organization() {
    let server = Server::start();
    let vic = server.as_user("vic").await;
    let names = |list: &Answer| column(list, "name");
    let everybody = vic.get("/members").await.ok();
    assert_eq!(names(&everybody), ["admin", "mia", "ana", "ben", "vic"], "in the order in which they came");
    assert_eq!(names(&vic.get("/members?role=developer").await.ok()), ["ana", "ben"]);
    assert_eq!(names(&vic.get("/members?name=mia").await.ok()), ["mia"]);
    assert_eq!(vic.get("/members?name=mia&role=viewer").await.ok().data(), json!([]));
    let first = vic.get("/members?role=developer&limit=1").await.ok();
    assert_eq!(first.json()["pagination"], json!({ "limit": 1, "offset": 0, "total": 2 }));
    let next = vic.send(vic.request(Method::GET, &first.link("next").unwrap())).await.ok();
    assert_eq!(names(&next), ["ben"]);
    for query in ["role=boss", "name=a%20b", "role=viewer&role=admin", "userId=x", "limit=0"] {
        vic.get(&format!("/members?{query}")).await.refused(400, "invalid_parameter");
    }
}

#[tokio::test]
async fn all_that_is_wrong_is_told_at_once() {
    let server = Server::start();
    let admin = server.admin();
    let cases: [(Value, &[&str]); 7] = [
        (json!({}), &["name", "role"]),
        (json!({ "name": "", "role": "" }), &["name", "role"]),
        (json!({ "name": "a b", "role": "Admin" }), &["name", "role"]),
        (json!({ "name": "x".repeat(64), "role": null }), &["name", "role"]),
        (json!({ "name": ["zoe"], "role": 7, "colour": "red" }), &["name", "role", "colour"]),
        (json!({ "name": "zoe", "role": "viewer", "userId": "usr_x" }), &["userId"]),
        (json!({ "name": "zoe", "role": "viewer", "email": "zoe" }), &["email"]),
    ];
    for (body, expected) in cases {
        let refused = admin.post("/members", body.clone()).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), expected, "{body}");
    }
    let ana = member(&admin, "ana").await;
    let cases: [(Value, &[&str]); 6] = [
        (json!({}), &["role"]),
        (json!({ "role": null }), &["role"]),
        (json!({ "role": "boss" }), &["role"]),
        (json!({ "name": "anna", "role": "viewer" }), &["name"]),
        (json!({ "role": "viewer", "colour": "red" }), &["colour"]),
        (json!({ "email": "ana@", "disabled": "yes" }), &["email", "disabled"]),
    ];
    for (body, expected) in cases {
        let refused = patch(&admin, &path_of(&ana), body.clone()).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), expected, "{body}");
    }
    admin.post("/members", json!({ "name": "ana", "role": "viewer" })).await.refused(409, "member_exists");
    assert_eq!(member(&admin, "ana").await, ana);
}

#[tokio::test]
async fn a_role_acts_on_the_next_request() {
    let server = Server::start();
    let (admin, ana) = (server.admin(), server.as_user("ana").await);
    let path = path_of(&member(&admin, "ana").await);
    ana.put(&at("new"), json!({})).await.refused(403, "permission_denied");
    patch(&admin, &path, json!({ "role": "maintainer" })).await.ok();
    ana.put(&at("new"), json!({})).await.created();
    patch(&admin, &path, json!({ "role": "viewer" })).await.ok();
    ana.claim("new", json!({})).await.refused(403, "permission_denied");
    ana.environment("new").await.ok();
    patch(&admin, &path, json!({ "role": "admin" })).await.ok();
    ana.post("/members", json!({ "name": "zoe", "role": "viewer" })).await.created();
}

#[tokio::test]
async fn who_is_removed_is_let_in_no_more_and_who_comes_back_is_somebody_else() {
    let mut server = Server::start();
    let (admin, ana, second) = (server.admin(), server.as_user("ana").await, server.as_user("ana").await);
    let before = member(&admin, "ana").await;
    assert_eq!(before["tokenCount"], 2);
    let session = ana.claim("review-1", json!({})).await.created().session();
    admin.delete(&path_of(&before)).await.has_status(204);
    for client in [&ana, &second] {
        client.get("/pipelines").await.refused(401, "invalid_token");
    }
    let tokens = admin.get("/tokens").await.ok().json();
    assert_eq!(tokens["pagination"]["total"], 1, "{tokens}");
    let refused = admin.post("/tokens", json!({ "name": "x", "userId": before["userId"] })).await;
    assert_eq!(refused.refused(422, "invalid_request").faulty_fields(), ["userId"]);
    assert_eq!(
        admin.environment("review-1").await.ok().data()["lock"]["sessionId"],
        session,
        "what is held stays held"
    );

    server.kill();
    server.start_again();
    let admin = server.admin();
    ana.clone().at(&server).get("/pipelines").await.refused(401, "invalid_token");
    assert_eq!(admin.get("/members?name=ana").await.ok().data(), json!([]), "the file says nothing new of her");
    let after = admin.post("/members", json!({ "name": "ana", "role": "developer" })).await.created().data();
    assert!(after["userId"].as_str() > before["userId"].as_str());
    ana.at(&server).get("/pipelines").await.refused(401, "invalid_token");
    let ana = server.as_user("ana").await;
    ana.release("review-1", &session).await.refused(403, "not_session_holder");
    server.as_user("mia").await.release("review-1", &session).await.ok();
}

#[tokio::test]
async fn who_is_removed_or_demoted_while_waiting_for_a_lock_does_not_get_it() {
    let server = Server::start();
    let (admin, mia) = (server.admin(), server.as_user("mia").await);
    let session = mia.claim("review-1", json!({})).await.created().session();
    let [ana, ben] = [server.as_user("ana").await, server.as_user("ben").await];
    let removed = ana.wait_in_line("review-1", json!({ "waitSeconds": 60 }), 1).await;
    let demoted = ben.wait_in_line("review-1", json!({ "waitSeconds": 60 }), 2).await;
    let last = mia.wait_in_line("review-1", json!({ "waitSeconds": 60 }), 3).await;
    admin.delete(&path_of(&member(&admin, "ana").await)).await.has_status(204);
    patch(&admin, &path_of(&member(&admin, "ben").await), json!({ "role": "viewer" })).await.ok();
    mia.release("review-1", &session).await.ok();
    removed.await.unwrap().refused(401, "invalid_token");
    demoted.await.unwrap().refused(403, "permission_denied");
    last.await.unwrap().created();
}

#[tokio::test]
async fn the_last_admin_stays() {
    let server = Server::start();
    let admin = server.admin();
    let own = path_of(&member(&admin, "admin").await);
    for role in ["viewer", "developer", "maintainer"] {
        let refused = patch(&admin, &own, json!({ "role": role })).await.refused(409, "last_admin");
        assert!(refused.json()["detail"].as_str().unwrap().contains("somebody else"), "{refused:?}");
    }
    admin.delete(&own).await.refused(409, "last_admin");
    patch(&admin, &own, json!({ "role": "admin" })).await.ok();
    let mia = path_of(&member(&admin, "mia").await);
    patch(&admin, &mia, json!({ "role": "admin" })).await.ok();
    let mia = server.as_user("mia").await;
    admin.delete(&own).await.has_status(204);
    admin.get("/members").await.refused(401, "invalid_token");
    mia.delete(NOBODY).await.refused(404, "member_not_found");
    let own = path_of(&member(&mia, "mia").await);
    mia.delete(&own).await.refused(409, "last_admin");
}

#[tokio::test]
async fn of_two_admins_who_remove_each_other_at_once_one_stays() {
    let server = Server::start();
    let mut survivor = (server.admin(), "admin".to_owned());
    for round in 0..20 {
        let name = format!("rival-{round}");
        survivor.0.post("/members", json!({ "name": name, "role": "admin" })).await.created();
        let made = survivor.0.post("/tokens", json!({ "name": "test", "user": name })).await.created();
        let rival = (server.with_token(made.data()["token"].as_str().unwrap()), name);
        let paths = (path_of(&member(&survivor.0, &survivor.1).await), path_of(&member(&survivor.0, &rival.1).await));
        let (one, other) = tokio::join!(survivor.0.delete(&paths.1), rival.0.delete(&paths.0));
        let removed = |answer: &Answer| answer.status == 204;
        assert_ne!(removed(&one), removed(&other), "{one:?} {other:?}");
        let loser = if removed(&one) { &other } else { &one };
        assert!([(409, "last_admin".to_owned()), (401, "invalid_token".to_owned())].contains(&loser.problem()));
        if removed(&other) {
            survivor = rival;
        }
        assert_eq!(column(&survivor.0.get("/members?role=admin").await.ok(), "name"), [survivor.1.as_str()]);
    }
}

#[tokio::test]
async fn a_retry_gets_the_first_answer_also_after_a_kill() {
    let mut server = Server::start();
    let body = json!({ "name": "zoe", "role": "viewer" });
    let first = server.admin().post_with_key("/members", "once", body.clone()).await.created();
    for killed in [false, true] {
        if killed {
            server.kill();
            server.start_again();
        }
        let admin = server.admin();
        let again = admin.post_with_key("/members", "once", body.clone()).await.created();
        assert_eq!((again.header("idempotency-replayed"), &again.text), ("true", &first.text));
        assert_eq!(again.header("location"), first.header("location"));
        let other = json!({ "name": "zoe", "role": "admin" });
        admin.post_with_key("/members", "once", other).await.refused(422, "idempotency_key_reused");
        assert_eq!(admin.get("/members").await.ok().json()["pagination"]["total"], 6);
    }
}

#[tokio::test]
async fn what_the_api_did_holds_after_a_restart_until_the_file_says_something_else() {
    let mut server = Setup::default().organization(ACME).start();
    let admin = server.admin();
    let ana = server.as_user("ana").await;
    patch(&admin, &path_of(&member(&admin, "ana").await), json!({ "role": "viewer" })).await.ok();
    admin.delete(&path_of(&member(&admin, "ben").await)).await.has_status(204);
    admin.post("/members", json!({ "name": "zoe", "role": "admin" })).await.created();
    let before = admin.get("/members").await.ok().data();

    restart(&mut server, ACME);
    assert_eq!(server.admin().get("/members").await.ok().data(), before);
    ana.clone().at(&server).claim("review-1", json!({})).await.refused(403, "permission_denied");

    let changed = ACME
        .replace("name = \"ana\"\nrole = \"developer\"", "name = \"ana\"\nrole = \"maintainer\"")
        .replace("name = \"ben\"\nrole = \"developer\"", "name = \"ben\"\nrole = \"viewer\"")
        .replace("[[members]]\nname = \"vic\"\nrole = \"viewer\"\n", "");
    restart(&mut server, &changed);
    let admin = server.admin();
    let shown = admin.get("/members").await.ok();
    assert_eq!(column(&shown, "name"), ["admin", "mia", "ana", "zoe", "ben"]);
    assert_eq!(column(&shown, "role"), ["admin", "maintainer", "maintainer", "admin", "viewer"]);
    ana.clone().at(&server).put(&at("new"), json!({})).await.created();

    // A member who is admin only through the API keeps the organization, and gets the operator's token.
    admin.delete(&path_of(&member(&admin, "admin").await)).await.has_status(204);
    restart(&mut server, &changed);
    let tokens = server.admin().get("/tokens").await.ok().data();
    let bootstrap = tokens.as_array().unwrap().iter().find(|token| token["name"] == "bootstrap").unwrap();
    assert_eq!(bootstrap["user"]["name"], "zoe");
}

#[tokio::test]
async fn an_address_is_given_changed_and_taken_away_and_the_file_has_its_say() {
    let mut server = Setup::default().organization(ACME).start();
    let admin = server.admin();
    let body = json!({ "name": "zoe", "role": "viewer", "email": "zoe@acme.example" });
    let zoe = admin.post("/members", body).await.created().data();
    assert_eq!(zoe["email"], "zoe@acme.example");
    let changed = patch(&admin, &path_of(&zoe), json!({ "email": "z@acme.example" })).await.ok().data();
    assert_has(&changed, json!({ "email": "z@acme.example", "role": "viewer" }));
    let ana = path_of(&member(&admin, "ana").await);
    patch(&admin, &ana, json!({ "email": "ana@home.example" })).await.ok();
    let taken = patch(&admin, &path_of(&zoe), json!({ "email": null })).await.ok().data();
    assert_eq!(taken["email"], Value::Null);

    let mine = "name = \"ana\"\nrole = \"developer\"";
    restart(&mut server, &ACME.replace(mine, "name = \"ana\"\nrole = \"viewer\""));
    let found = member(&server.admin(), "ana").await;
    assert_has(&found, json!({ "role": "viewer", "email": "ana@home.example" }));
    restart(&mut server, &ACME.replace(mine, &format!("{mine}\nemail = \"ana@acme.example\"")));
    assert_eq!(member(&server.admin(), "ana").await["email"], "ana@acme.example");
    restart(&mut server, ACME);
    assert_eq!(member(&server.admin(), "ana").await["email"], Value::Null, "as the file has it");
}

#[tokio::test]
async fn who_is_disabled_is_refused_at_once_and_gets_everything_back() {
    let mut server = Server::start();
    let (admin, ana) = (server.admin(), server.as_user("ana").await);
    let path = path_of(&member(&admin, "ana").await);
    let session = ana.claim("review-1", json!({})).await.created().session();
    let mia = server.as_user("mia").await;
    mia.claim("review-2", json!({})).await.created();
    let waiting = ana.wait_in_line("review-2", json!({ "waitSeconds": 60 }), 1).await;
    let disabled = patch(&admin, &path, json!({ "disabled": true })).await.ok().data();
    assert_has(&disabled, json!({ "disabled": true, "role": "developer", "tokenCount": 1 }));
    let refused = waiting.await.unwrap().refused(401, "invalid_token");
    assert!(refused.json()["detail"].as_str().unwrap().contains("disabled"), "{refused:?}");
    ana.get("/pipelines").await.refused(401, "invalid_token");
    server.kill();
    server.start_again();
    let (admin, ana) = (server.admin(), ana.at(&server));
    ana.get("/pipelines").await.refused(401, "invalid_token");
    assert_eq!(admin.environment("review-1").await.ok().data()["lock"]["sessionId"], session);
    admin.post("/tokens", json!({ "name": "for later", "user": "ana" })).await.created();
    patch(&admin, &path, json!({ "disabled": false })).await.ok();
    ana.release("review-1", &session).await.ok();
}

#[tokio::test]
async fn the_last_admin_who_is_not_disabled_stays_also_when_two_demote_and_disable_each_other() {
    let server = Server::start();
    let admin = server.admin();
    let own = path_of(&member(&admin, "admin").await);
    patch(&admin, &own, json!({ "disabled": true })).await.refused(409, "last_admin");
    let mia = path_of(&member(&admin, "mia").await);
    patch(&admin, &mia, json!({ "role": "admin", "disabled": true })).await.ok();
    for change in [json!({ "disabled": true }), json!({ "role": "viewer" })] {
        patch(&admin, &own, change).await.refused(409, "last_admin");
    }
    admin.delete(&own).await.refused(409, "last_admin");
    for round in 0..20 {
        patch(&admin, &mia, json!({ "disabled": false, "role": "admin" })).await.ok();
        let other = server.as_user("mia").await;
        let (demotion, disabling) = (json!({ "role": "viewer" }), json!({ "disabled": true }));
        let (one, two) = tokio::join!(patch(&other, &own, demotion), patch(&admin, &mia, disabling));
        assert_ne!(one.status == 200, two.status == 200, "{round}: {one:?} {two:?}");
        if one.status == 200 {
            patch(&other, &own, json!({ "role": "admin" })).await.ok();
        }
    }
}

/// The expected state of a member after a kill, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Acknowledged {
    Nothing,
    Added,
    Removed,
}

#[tokio::test]
async fn no_change_that_was_acknowledged_is_lost_and_none_is_done_by_half_when_the_server_is_killed() {
    let mut server = Server::start();
    for round in 0..5 {
        let (acknowledged, mut acknowledgements) = tokio::sync::mpsc::unbounded_channel();
        let clients = (0..4).map(|client| {
            let (admin, acknowledged) = (server.admin(), acknowledged.clone());
            tokio::spawn(add_and_remove(admin, format!("m-{round}-{client}"), acknowledged))
        });
        let clients: Vec<_> = clients.collect();
        for _ in 0..40 {
            acknowledgements.recv().await.unwrap();
        }
        server.kill();
        server.start_again();
        let admin = server.admin();
        for made in join_all(clients).await.into_iter().flat_map(Result::unwrap) {
            let found = admin.get(&format!("/members?name={}", made.name)).await.ok().data();
            let is_there = found.as_array().unwrap().len() == 1;
            match made.told {
                Acknowledged::Nothing => {}
                Acknowledged::Added => assert!(is_there, "{made:?}"),
                Acknowledged::Removed => assert!(!is_there, "{made:?}"),
            }
            if let Some(token) = &made.token {
                let lets_in = server.with_token(token).get("/pipelines").await.status == 200;
                assert_eq!(lets_in, is_there, "a token goes with its member: {made:?}");
            }
        }
        for member in admin.get("/members?limit=100&role=viewer").await.ok().data().as_array().unwrap() {
            admin.delete(&path_of(member)).await.has_status(204);
        }
    }
}

#[derive(Debug)]
struct Made {
    name: String,
    token: Option<String>,
    told: Acknowledged,
}

/// Adds members, gives each a token, and removes every second one, until the server is gone.
async fn add_and_remove(
    admin: Client,
    prefix: String,
    acknowledged: tokio::sync::mpsc::UnboundedSender<()>,
) -> Vec<Made> {
    let send = async |method: Method, rest: &str, body: Value| {
        let request = admin.request(method, &admin.path(rest)).json(&body);
        let answer = admin.try_send(request).await.ok()?;
        assert!(answer.status.is_success(), "{answer:?}");
        acknowledged.send(()).ok();
        Some(answer)
    };
    let mut all = Vec::new();
    for place in 0.. {
        let name = format!("{prefix}-{place}");
        all.push(Made { name: name.clone(), token: None, told: Acknowledged::Nothing });
        let made = all.last_mut().unwrap();
        let Some(added) = send(Method::POST, "/members", json!({ "name": name, "role": "viewer" })).await else {
            break;
        };
        made.told = Acknowledged::Added;
        let Some(token) = send(Method::POST, "/tokens", json!({ "name": "x", "user": name })).await else { break };
        made.token = Some(token.data()["token"].as_str().unwrap().to_owned());
        if place % 2 == 0 {
            made.told = Acknowledged::Nothing;
            let Some(_) = send(Method::DELETE, &path_of(&added.data()), Value::Null).await else { break };
            made.told = Acknowledged::Removed;
        }
    }
    all
}

async fn patch(client: &Client, path: &str, body: Value) -> Answer {
    client.send(client.request(Method::PATCH, &client.path(path)).json(&body)).await
}

async fn member(client: &Client, name: &str) -> Value {
    let found = client.get(&format!("/members?name={name}")).await.ok().data();
    assert_eq!(found.as_array().unwrap().len(), 1, "{name}: {found}");
    found[0].clone()
}

fn path_of(member: &Value) -> String {
    format!("/members/{}", member["userId"].as_str().unwrap())
}

fn restart(server: &mut Server, organization: &str) {
    server.kill();
    server.change_setup(|_| Setup::default().organization(organization));
    server.start_again();
}
