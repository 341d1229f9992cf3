//! Tokens: created, shown once, used, expired, revoked, and the first one.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::ACME;
use crate::support::waiting::Bounded;
use crate::support::{ADMIN_TOKEN, Server, Setup, assert_fields, assert_has, assert_is_time, lockkeeper};

#[tokio::test]
async fn a_tokens_text_is_shown_once_and_never_listed() {
    let server = Server::start();
    let admin = server.admin();
    let made = admin.post("/tokens", json!({ "name": "CI – Ægir", "user": "ana" })).await.created();
    let token = made.data();
    assert_fields(&token, "tokenId name user createdBy lastFour createdAt expiresAt lastUsedAt token");
    let text = token["token"].as_str().unwrap();
    assert!(text.starts_with("lk_") && text.len() == 39, "{text}");
    assert_has(&token, json!({ "name": "CI – Ægir", "lastFour": &text[35..], "expiresAt": null, "lastUsedAt": null }));
    assert_eq!((&token["user"]["name"], &token["createdBy"]["name"]), (&json!("ana"), &json!("admin")));
    assert_is_time(&token["createdAt"]);
    let id = token["tokenId"].as_str().unwrap();
    assert_eq!(made.header("location"), admin.path(&format!("/tokens/{id}")));

    let list = admin.get("/tokens").await.ok();
    assert_eq!(list.json()["pagination"], json!({ "limit": 50, "offset": 0, "total": 2 }));
    assert!(!list.text.contains(&text[3..35]) && !list.text.contains(&ADMIN_TOKEN[3..35]));
    let listed = list.data()[1].clone();
    assert_fields(&listed, "tokenId name user createdBy lastFour createdAt expiresAt lastUsedAt");
    assert_has(&listed, json!({ "tokenId": id, "lastFour": &text[35..] }));
    assert_has(&listed, json!({ "user": token["user"], "createdBy": token["createdBy"] }));
    let first = admin.get("/tokens?limit=1").await.ok();
    assert_eq!(first.data()[0]["name"], "bootstrap", "oldest first");
    let next = admin.send(admin.request(Method::GET, &first.link("next").unwrap())).await.ok();
    assert_eq!(next.data()[0]["tokenId"], id);

    let claimed = server.with_token(text).claim("review-1", json!({})).await.created();
    assert_eq!(claimed.data()["user"], token["user"]);
}

#[tokio::test]
async fn a_token_stands_for_a_member_and_for_nobody_else() {
    let server = Server::start();
    let admin = server.admin();
    let own = admin.post("/tokens", json!({ "name": "own" })).await.created().data();
    assert_eq!(own["user"]["name"], "admin");
    assert_eq!(own["createdBy"], own["user"]);
    let user = admin.post("/tokens", json!({ "name": "x", "user": "ben" })).await.created().data();
    let by_id = json!({ "name": "x", "userId": user["user"]["userId"] });
    assert_eq!(admin.post("/tokens", by_id).await.created().data()["user"]["name"], "ben");
    let nobody = "usr_0199f3c2a4b07f3e9d2c5a1b";
    let cases: [(Value, &[&str]); 7] = [
        (json!({}), &["name"]),
        (json!({ "name": "x".repeat(101) }), &["name"]),
        (json!({ "name": "line\nbreak" }), &["name"]),
        (json!({ "name": "x", "user": "nobody" }), &["user"]),
        (json!({ "name": "x", "userId": nobody }), &["userId"]),
        (json!({ "name": "x", "userId": "ana" }), &["userId"]),
        (json!({ "name": "x", "userId": user["user"]["userId"], "user": "ben" }), &["user"]),
    ];
    for (body, expected) in cases {
        let refused = admin.post("/tokens", body.clone()).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), expected, "{body}");
    }
}

#[tokio::test]
async fn everybody_manages_their_own_tokens_and_only_admins_those_of_others() {
    let server = Server::start();
    let (admin, vic) = (server.admin(), server.as_user("vic").await);
    let made = vic.post("/tokens", json!({ "name": "laptop" })).await.created().data();
    assert_eq!((&made["user"]["name"], &made["createdBy"]["name"]), (&json!("vic"), &json!("vic")));
    vic.post("/tokens", json!({ "name": "again", "user": "vic" })).await.created();
    vic.post("/tokens", json!({ "name": "by id", "userId": made["user"]["userId"] })).await.created();
    for other in [json!({ "name": "x", "user": "admin" }), json!({ "name": "x", "user": "nobody" })] {
        let refused = vic.post("/tokens", other).await.refused(403, "permission_denied");
        assert_eq!(refused.json()["requiredRole"], "admin");
    }
    let names = |list: &crate::support::Answer| crate::support::waiting::column(list, "name");
    assert_eq!(names(&vic.get("/tokens").await.ok()), ["test", "laptop", "again", "by id"]);
    assert_eq!(names(&vic.get("/tokens?mine=true").await.ok()), ["test", "laptop", "again", "by id"]);
    assert_eq!(names(&admin.get("/tokens?mine=true").await.ok()), ["bootstrap"]);
    assert_eq!(admin.get("/tokens?mine=false").await.ok().json()["pagination"]["total"], 5);
    vic.get("/tokens?mine=yes").await.refused(400, "invalid_parameter");

    let bootstrap = admin.get("/tokens?mine=true").await.ok().data()[0]["tokenId"].clone();
    vic.delete(&format!("/tokens/{}", bootstrap.as_str().unwrap())).await.refused(404, "token_not_found");
    vic.delete(&format!("/tokens/{}", made["tokenId"].as_str().unwrap())).await.has_status(204);
    server.with_token(made["token"].as_str().unwrap()).get("/pipelines").await.refused(401, "invalid_token");
    assert_eq!(admin.get("/tokens").await.ok().json()["pagination"]["total"], 4);
}

#[tokio::test]
async fn an_expired_token_lets_nobody_in() {
    let server = Server::start();
    let admin = server.admin();
    for bad in ["2020-01-01T00:00:00Z", "tomorrow", "2999-01-01", ""] {
        let refused = admin.post("/tokens", json!({ "name": "x", "expiresAt": bad })).await;
        assert_eq!(refused.refused(422, "invalid_request").faulty_fields(), ["expiresAt"], "{bad}");
    }
    let soon = (jiff::Timestamp::now() + Duration::from_secs(3)).to_string();
    let made = admin.post("/tokens", json!({ "name": "short", "expiresAt": soon })).await.created().data();
    assert_is_time(&made["expiresAt"]);
    let client = server.with_token(made["token"].as_str().unwrap());
    client.get("/pipelines").await.ok();
    let deadline = Instant::now() + Duration::from_secs(30);
    let refused = loop {
        let answer = client.get("/pipelines").await;
        if answer.status != StatusCode::OK {
            break answer.refused(401, "invalid_token");
        }
        assert!(Instant::now() < deadline, "the token does not expire");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(refused.json()["detail"].as_str().unwrap().contains("expired"), "{refused:?}");
}

#[tokio::test]
async fn a_token_never_outlives_the_one_that_it_was_made_with() {
    let server = Server::start();
    let admin = server.admin();
    let (sooner, end, later) = ("2098-01-01T00:00:00.000Z", "2099-01-01T00:00:00.000Z", "2100-01-01T00:00:00.000Z");
    let made = admin.post("/tokens", json!({ "name": "short", "expiresAt": end })).await.created().data();
    let text = made["token"].as_str().unwrap();
    let short = server.with_token(text);
    for (asked, given) in [(Value::Null, end), (json!(later), end), (json!(sooner), sooner)] {
        for user in ["admin", "ana"] {
            let body = json!({ "name": "x", "user": user, "expiresAt": asked });
            let made = short.post("/tokens", body).await.created().data();
            assert_eq!(made["expiresAt"], given, "{asked} for {user}");
        }
    }
    // A sign-in does not circumvent that either.
    for (token, expected) in [(text, json!(end)), (ADMIN_TOKEN, Value::Null)] {
        let browser = server.anonymous();
        let signing_in = browser.request(Method::POST, "/auth/sign-in").json(&json!({ "token": token }));
        let answer = browser.send(signing_in).await.has_status(204);
        let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
        let making = browser.request(Method::POST, &admin.path("/tokens")).json(&json!({ "name": "by a page" }));
        let making = making.header("cookie", cookie).header("sec-fetch-site", "same-origin");
        assert_eq!(browser.send(making).await.created().data()["expiresAt"], expected);
    }
}

#[tokio::test]
async fn a_revoked_token_stops_working_at_once_and_for_good() {
    let mut server = Server::start();
    let admin = server.admin();
    let made = admin.post("/tokens", json!({ "name": "x", "user": "ana" })).await.created();
    let text = made.data()["token"].as_str().unwrap().to_owned();
    let place = made.header("location").to_owned();
    let ana = server.with_token(&text);
    ana.get("/pipelines").await.ok();
    let revoke = async || admin.send(admin.request(Method::DELETE, &place)).await;
    revoke().await.has_status(204);
    ana.get("/pipelines").await.refused(401, "invalid_token");
    revoke().await.refused(404, "token_not_found");
    for id in ["tok_0199f3c2a4b07f3e9d2c5a1b", "tok_", "x", "%00"] {
        let refused = admin.delete(&format!("/tokens/{id}")).await;
        refused.refused(404, "token_not_found");
    }
    server.kill();
    server.start_again();
    server.with_token(&text).get("/pipelines").await.refused(401, "invalid_token");
}

#[tokio::test]
async fn when_a_token_was_last_used_is_remembered() {
    let mut server = Server::start();
    let admin = server.admin();
    let ana = server.as_user("ana").await;
    assert_eq!(admin.get("/tokens").await.data()[1]["lastUsedAt"], Value::Null);
    ana.get("/pipelines").await.ok();
    let used = admin.get("/tokens").await.data()[1]["lastUsedAt"].clone();
    assert_is_time(&used);
    assert!(server.terminate().success());
    server.start_again();
    assert_eq!(server.admin().get("/tokens").await.data()[1]["lastUsedAt"], used);
}

#[tokio::test]
async fn a_new_bootstrap_token_takes_the_place_of_the_old_one() {
    let mut server = Server::start();
    let ana = server.as_user("ana").await;
    let fresh = String::from_utf8(lockkeeper(&["token"]).output().unwrap().stdout).unwrap();
    server.terminate();
    server.change_setup(|setup| setup.variable("LOCKKEEPER_BOOTSTRAP_TOKEN", fresh.trim()));
    server.start_again();
    assert!(!server.greeting.contains(fresh.trim()), "{}", server.greeting);
    server.admin().get("/tokens").await.refused(401, "invalid_token");
    server.with_token(fresh.trim()).get("/tokens").await.ok();
    ana.at(&server).get("/pipelines").await.ok();
    // Without the variable the last one stays.
    server.terminate();
    server.change_setup(|setup| setup.without_variable("LOCKKEEPER_BOOTSTRAP_TOKEN"));
    server.start_again();
    server.with_token(fresh.trim()).get("/tokens").await.ok();
}

#[tokio::test]
async fn a_revoked_bootstrap_token_stays_revoked_while_its_variable_is_still_set() {
    let mut server = Server::start();
    let other = server.as_user("admin").await;
    let tokens = other.get("/tokens").await.ok().data();
    let bootstrap = tokens.as_array().unwrap().iter().find(|token| token["name"] == "bootstrap").unwrap();
    other.delete(&format!("/tokens/{}", bootstrap["tokenId"].as_str().unwrap())).await.has_status(204);
    for killed in [true, false] {
        if killed {
            server.kill();
        } else {
            assert!(server.terminate().success());
        }
        server.start_again();
        server.admin().get("/tokens").await.refused(401, "invalid_token");
        let other = other.clone().at(&server);
        assert_eq!(other.get("/tokens").await.ok().json()["pagination"]["total"], 1);
        let said = server.log().matches("LOCKKEEPER_BOOTSTRAP_TOKEN has a token that was revoked").count();
        assert_eq!(said, if killed { 1 } else { 2 }, "{}", server.log());
    }
    assert!(!server.log().contains(&ADMIN_TOKEN[3..]));
    let fresh = String::from_utf8(lockkeeper(&["token"]).output().unwrap().stdout).unwrap();
    server.terminate();
    server.change_setup(|setup| setup.variable("LOCKKEEPER_BOOTSTRAP_TOKEN", fresh.trim()));
    server.start_again();
    server.with_token(fresh.trim()).get("/tokens").await.ok();
    server.admin().get("/tokens").await.refused(401, "invalid_token");
}

#[tokio::test]
async fn the_bootstrap_token_is_the_first_admins_also_when_that_is_somebody_else() {
    let mut server = Setup::default().organization(ACME).start();
    server.admin().get("/tokens").await.ok();
    server.terminate();
    let renamed = ACME.replace("name = \"admin\"", "name = \"root\"");
    server.change_setup(|_| Setup::default().organization(&renamed));
    server.start_again();
    let list = server.admin().get("/tokens").await.ok().data();
    assert_eq!(list[0]["user"]["name"], "root");
    assert_eq!(list[0]["createdBy"], list[0]["user"]);
}

#[tokio::test]
async fn a_first_start_prints_a_token_once_and_a_command_that_works_as_it_stands() {
    let home = tempfile::tempdir().unwrap();
    let setup = || Setup::default().without_variable("LOCKKEEPER_BOOTSTRAP_TOKEN");
    let mut command = setup().command(home.path());
    let mut child = Bounded::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut printed: Vec<String> = Vec::new();
    for line in lines {
        let last = line.trim_start().starts_with("curl ");
        printed.push(line);
        if last {
            break;
        }
    }
    let found = |label: &str| printed.iter().find_map(|line| line.strip_prefix(label)).unwrap().trim().to_owned();
    let (page, query) = (found("Dashboard:"), "/sign-in?organization=acme&name=admin");
    assert!(page.starts_with("http://127.0.0.1:") && page.ends_with(query), "{page}");
    let shown = found("Sign in as:");
    let password = shown.strip_prefix("admin, password ").unwrap().split("   ").next().unwrap();
    assert!(password.len() == 17 && shown.contains("only this once"), "{shown}");
    let signing_in = json!({ "organization": "acme", "name": "admin", "password": password });
    let browser = crate::support::Client::anonymous(page.strip_suffix(query).unwrap());
    browser.send(browser.request(Method::POST, "/auth/sign-in").json(&signing_in)).await.has_status(204);
    let curl = Command::new("sh").args(["-c", printed.last().unwrap()]).output().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let answer: Value = serde_json::from_slice(&curl.stdout).unwrap_or_else(|error| panic!("{error}: {curl:?}"));
    assert_has(&answer["data"], json!({ "envName": "review-1", "lockStatus": "active", "commitId": "c0ffee1" }));

    let line = printed.iter().find(|line| line.contains("Admin token:")).unwrap();
    let token = line.split_whitespace().find(|word| word.starts_with("lk_")).unwrap();
    let mut server = setup().start_at(home.path());
    assert!(!server.greeting.contains("lk_") && !server.greeting.contains("password"), "{}", server.greeting);
    assert!(server.greeting.contains(&format!("Dashboard:     {}/", server.address)), "{}", server.greeting);
    assert_eq!(server.with_token(token).environment("review-1").await.ok().data()["lockStatus"], "locked");
    assert!(!server.log().contains(&token[3..]));
    server.terminate();
}
