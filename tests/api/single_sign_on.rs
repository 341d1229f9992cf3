//! Single sign-on against a real OpenID provider: `oidc-provider` from npm, with `tests/sso/provider.mjs`.

mod provider;

use reqwest::Method;
use serde_json::json;

use crate::operating::pruning::{redeclare, until_refused};
use crate::support::{Server, Setup, refusal};
use provider::{Browser, CLIENT_SECRET, Provider, error_of, location};

#[tokio::test]
async fn who_signs_in_at_the_provider_is_a_member_with_the_role_of_their_group() {
    let Some(provider) = Provider::start(&["--user", "ana:developers,other"]) else { return };
    let server = provider.serve("").await;
    let mut browser = Browser::new();
    let answer = browser.sign_in(&server, "ana").await;
    assert_eq!(location(&answer), "/acme/web?filter=1");
    assert!(browser.cookie(&server, "lockkeeper-sso").is_none(), "it is used up");

    let ana = browser.whoami(&server).await.ok().data();
    assert_eq!((&ana["user"]["name"], &ana["role"], &ana["token"]), (&json!("ana"), &json!("developer"), &json!(null)));
    let members = server.admin().get("/members?name=ana").await.ok().data();
    assert_eq!((&members[0]["email"], &members[0]["hasPassword"]), (&json!("ana@acme.example"), &json!(false)));
    let events = server.admin().get("/events?type=member.*").await.ok().data();
    let signed_in = events.as_array().unwrap().iter().find(|event| event["type"] == "member.signed_in").unwrap();
    assert_eq!(signed_in["data"]["method"], "single_sign_on");
}

#[tokio::test]
async fn the_sign_in_page_is_told_of_the_providers_of_an_organization() {
    let Some(provider) = Provider::start(&[]) else { return };
    let server = provider.serve("").await;
    for (organization, expected) in
        [("acme", json!([{ "id": "test", "name": "Test provider" }])), ("nobody", json!([]))]
    {
        let path = format!("/auth/methods?organization={organization}");
        let client = server.anonymous();
        let methods = client.send(client.request(Method::GET, &path)).await.ok().data();
        assert_eq!(methods["providers"], expected);
    }
}

#[tokio::test]
async fn the_groups_decide_the_role_at_each_sign_in() {
    let Some(provider) = Provider::start(&["--user", "ana:viewers,developers"]) else { return };
    let server = provider.serve("").await;
    let mut first = Browser::new();
    first.sign_in(&server, "ana").await;
    let before = first.whoami(&server).await.ok().data();
    assert_eq!(before["role"], "developer");

    provider.set_groups("ana", &["viewers"]).await;
    let mut second = Browser::new();
    second.sign_in(&server, "ana").await;
    let after = second.whoami(&server).await.ok().data();
    assert_eq!((&after["role"], &after["user"]), (&json!("viewer"), &before["user"]), "the same member");
    assert_eq!(first.whoami(&server).await.ok().data()["role"], "viewer", "also where they were signed in before");

    provider.set_groups("ana", &["other"]).await;
    let mut third = Browser::new();
    assert_eq!(error_of(&third.sign_in(&server, "ana").await), "sso_no_role");
    third.whoami(&server).await.refused(401, "missing_token");
}

#[tokio::test]
async fn who_has_no_group_has_the_default_role_if_there_is_one() {
    let Some(provider) = Provider::start(&["--user", "ana", "--claims-in-id-token"]) else { return };
    let server = provider.serve("default_role = 'viewer'").await;
    let mut browser = Browser::new();
    browser.sign_in(&server, "ana").await;
    assert_eq!(browser.whoami(&server).await.ok().data()["role"], "viewer");
    let counts = provider.control(json!({})).await;
    assert_eq!((&counts["/me"], &counts["/token"]), (&json!(null), &json!(1)), "the ID token has all claims");
}

#[tokio::test]
async fn the_last_admin_is_not_demoted_by_the_provider() {
    let Some(provider) = Provider::start(&["--user", "ana:admins"]) else { return };
    let server = provider.serve("").await;
    let mut browser = Browser::new();
    browser.sign_in(&server, "ana").await;
    set_disabled(&server, "root", true).await;
    provider.set_groups("ana", &["viewers"]).await;
    let mut again = Browser::new();
    again.sign_in(&server, "ana").await;
    assert_eq!(again.whoami(&server).await.ok().data()["role"], "admin");
}

#[tokio::test]
async fn a_disabled_member_cannot_sign_in() {
    let Some(provider) = Provider::start(&["--user", "ana:developers"]) else { return };
    let server = provider.serve("").await;
    let mut browser = Browser::new();
    browser.sign_in(&server, "ana").await;
    set_disabled(&server, "ana", true).await;
    browser.whoami(&server).await.refused(401, "invalid_token");
    assert_eq!(error_of(&Browser::new().sign_in(&server, "ana").await), "member_disabled");
    set_disabled(&server, "ana", false).await;
    assert_eq!(location(&Browser::new().sign_in(&server, "ana").await), "/acme/web?filter=1");
}

async fn set_disabled(server: &Server, name: &str, disabled: bool) {
    let admin = server.admin();
    let members = admin.get(&format!("/members?name={name}")).await.ok().data();
    let path = admin.path(&format!("/members/{}", members[0]["userId"].as_str().unwrap()));
    admin.send(admin.request(Method::PATCH, &path).json(&json!({ "disabled": disabled }))).await.ok();
}

#[tokio::test]
async fn a_sign_in_is_finished_once_and_by_the_browser_that_began_it() {
    let Some(provider) = Provider::start(&["--user", "ana:developers"]) else { return };
    let server = provider.serve("").await;
    let mut browser = Browser::new();
    let callback = browser.go_to_provider(&server, "ana").await;
    let sealed = browser.cookie(&server, "lockkeeper-sso").unwrap();

    let mut other = Browser::new();
    assert_eq!(error_of(&other.open(&callback).await), "sso_not_under_way", "without the cookie");
    other.go_to_provider(&server, "ana").await;
    assert_eq!(error_of(&other.open(&callback).await), "sso_not_under_way", "with the cookie of another sign-in");
    let (address, query) = callback.split_once('?').unwrap();
    for wrong in [query.replace("state=", "state=x"), query.replace("state=", "other="), String::new()] {
        let mut same = Browser::new();
        same.open(&format!("{}/auth/oidc/test?organization=acme", server.address)).await.has_status(303);
        assert_eq!(error_of(&same.open(&format!("{address}?{wrong}")).await), "sso_not_under_way", "{wrong}");
    }

    assert_eq!(location(&browser.open(&callback).await), "/acme/web?filter=1", "none of them has used it up");
    let client = server.anonymous();
    let replayed = client.request(Method::GET, callback.strip_prefix(&server.address).unwrap());
    let replayed = client.send(replayed.header("Cookie", format!("lockkeeper-sso={sealed}"))).await;
    replayed.refused(400, "sso_not_under_way");
}

#[tokio::test]
async fn a_code_or_an_issuer_that_was_changed_is_refused() {
    let Some(provider) = Provider::start(&["--user", "ana:developers"]) else { return };
    let server = provider.serve("").await;
    for (from, to, expected) in [
        ("code=", "code=x", "sso_denied"),
        ("code=", "other=", "sso_invalid"),
        ("code=", "error=access_denied&other=", "sso_denied"),
        ("iss=http", "iss=https", "sso_invalid"),
    ] {
        let mut browser = Browser::new();
        let callback = browser.go_to_provider(&server, "ana").await;
        let changed = callback.replace(from, to);
        assert_ne!(changed, callback);
        assert_eq!(error_of(&browser.open(&changed).await), expected, "{to}");
        browser.whoami(&server).await.refused(401, "missing_token");
    }
}

#[tokio::test]
async fn a_token_that_is_not_for_this_sign_in_is_refused() {
    let Some(provider) = Provider::start(&["--user", "ana:developers"]) else { return };
    let server = provider.serve("").await;
    for fault in [
        "audience",
        "audiences",
        "party",
        "issuer",
        "nonce",
        "expired",
        "hash",
        "unsigned",
        "symmetric",
        "key",
        "signature",
        "missing",
    ] {
        provider.control(json!({ "fault": fault })).await;
        let mut browser = Browser::new();
        assert_eq!(error_of(&browser.sign_in(&server, "ana").await), "sso_invalid", "{fault}");
        browser.whoami(&server).await.refused(401, "missing_token");
    }
    assert_eq!(server.admin().get("/members?name=ana").await.ok().data(), json!([]), "nobody was made a member");
    provider.control(json!({ "fault": null })).await;
    assert_eq!(location(&Browser::new().sign_in(&server, "ana").await), "/acme/web?filter=1");
}

#[tokio::test]
async fn a_new_key_of_the_provider_is_found_and_it_is_not_asked_for_each_unknown_one() {
    let Some(provider) = Provider::start(&["--user", "ana:developers"]) else { return };
    let server = provider.serve("").await;
    Browser::new().sign_in(&server, "ana").await;
    provider.control(json!({ "rotate": true })).await;
    assert_eq!(location(&Browser::new().sign_in(&server, "ana").await), "/acme/web?filter=1");
    provider.control(json!({ "fault": "key" })).await;
    for _ in 0..2 {
        assert_eq!(error_of(&Browser::new().sign_in(&server, "ana").await), "sso_invalid");
    }
    let counts = provider.control(json!({})).await;
    assert_eq!((&counts["/jwks"], &counts["/token"]), (&json!(2), &json!(4)));
}

#[tokio::test]
async fn a_provider_that_is_down_is_told_in_words() {
    let Some(provider) = Provider::start(&["--user", "ana:developers"]) else { return };
    let server = provider.serve("").await;
    let mut browser = Browser::new();
    let callback = browser.go_to_provider(&server, "ana").await;
    let organization = provider.organization("");
    drop(provider);
    assert_eq!(error_of(&browser.open(&callback).await), "sso_unavailable", "after it was known");

    let server = Setup::default().organization(&organization).start();
    let start = "/auth/oidc/test?organization=acme&return=/acme";
    let answer = Browser::new().open(&format!("{}{start}", server.address)).await;
    assert_eq!(location(&answer), "/sign-in?error=sso_unavailable&organization=acme&return=%2Facme");
    let client = server.anonymous();
    client.send(client.request(Method::GET, start)).await.refused(502, "sso_unavailable");
    let words = client.send(client.request(Method::GET, "/problems/sso_unavailable")).await.ok();
    assert!(words.text.contains("provider"), "{}", words.text);
    assert!(server.log().contains("single sign-on failed"), "{}", server.log());
}

#[tokio::test]
async fn only_a_provider_of_the_organization_can_be_asked_and_only_for_a_way_back_to_us() {
    let Some(provider) = Provider::start(&[]) else { return };
    let server = provider.serve("").await;
    let client = server.anonymous();
    let get = |query: &str| client.request(Method::GET, &format!("/auth/oidc/{query}"));
    for (query, status, code) in [
        ("other?organization=acme", 404, "provider_not_found"),
        ("test?organization=nobody", 404, "provider_not_found"),
        ("test", 400, "invalid_parameter"),
        ("test?organization=acme&return=//evil.example", 400, "invalid_parameter"),
        ("test?organization=acme&return=/%5Cevil.example", 400, "invalid_parameter"),
        ("test?organization=acme&return=https://evil.example", 400, "invalid_parameter"),
        ("test?organization=acme&retrun=/acme", 400, "invalid_parameter"),
        ("test/callback", 400, "sso_not_under_way"),
    ] {
        client.send(get(query)).await.refused(status, code);
    }
    let elsewhere = get("test?organization=acme").header("Host", "lock.example");
    client.send(elsewhere).await.refused(403, "insecure_sign_in");
}

#[tokio::test]
async fn a_member_is_not_taken_over_by_their_name_but_by_an_address_that_is_theirs() {
    let Some(provider) = Provider::start(&["--user", "root:viewers,admins"]) else { return };
    let server = provider.serve("").await;
    assert_eq!(error_of(&Browser::new().sign_in(&server, "root").await), "sso_name_taken");
    let admin = server.admin();
    let root = admin.get("/members?name=root").await.ok().data()[0]["userId"].as_str().unwrap().to_owned();
    let path = admin.path(&format!("/members/{root}"));
    admin.send(admin.request(Method::PATCH, &path).json(&json!({ "email": "Root@acme.example" }))).await.ok();
    let mut browser = Browser::new();
    browser.sign_in(&server, "root").await;
    assert_eq!(browser.whoami(&server).await.ok().data()["user"]["userId"], root.as_str());
}

#[tokio::test]
async fn a_person_is_the_same_member_after_a_restart_and_a_sign_in_begun_before_is_begun_again() {
    let Some(provider) = Provider::start(&["--user", "ana:developers"]) else { return };
    let mut server = provider.serve("").await;
    let mut browser = Browser::new();
    browser.sign_in(&server, "ana").await;
    let before = browser.whoami(&server).await.ok().data()["user"].clone();
    let mut under_way = Browser::new();
    let callback = under_way.go_to_provider(&server, "ana").await;
    let sealed = under_way.cookie(&server, "lockkeeper-sso").unwrap();
    server.kill();
    server.start_again();
    provider.returns_to(&server).await;
    let client = server.anonymous();
    let path = format!("/auth/oidc/test/callback?{}", callback.split_once('?').unwrap().1);
    let late = client.request(Method::GET, &path).header("Cookie", format!("lockkeeper-sso={sealed}"));
    client.send(late).await.refused(400, "sso_not_under_way");
    let mut again = Browser::new();
    again.sign_in(&server, "ana").await;
    assert_eq!(again.whoami(&server).await.ok().data()["user"], before);
}

#[tokio::test]
async fn no_secret_of_a_sign_in_reaches_the_log() {
    let Some(provider) = Provider::start(&["--user", "ana:developers"]) else { return };
    let server =
        Setup::default().organization(&provider.organization("")).variable("LOCKKEEPER_LOG_FILTER", "trace").start();
    provider.returns_to(&server).await;
    let mut browser = Browser::new();
    let callback = browser.go_to_provider(&server, "ana").await;
    let mut secrets = browser.cookies_of(&server);
    browser.open(&callback).await.has_status(303);
    secrets.extend(browser.cookies_of(&server));
    let url: reqwest::Url = callback.parse().unwrap();
    secrets
        .extend(url.query_pairs().filter(|(name, _)| name == "code" || name == "state").map(|(_, value)| value.into()));
    secrets.push(CLIENT_SECRET.to_owned());
    assert_eq!(secrets.len(), 5);
    let log = server.log();
    for secret in secrets {
        assert!(!log.contains(&secret), "{secret} is in the log");
    }
}

#[tokio::test]
async fn a_file_whose_secret_cannot_be_read_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let file = "[organization]\nid = 'acme'\n[[members]]\nname = 'root'\nrole = 'admin'\n[[providers]]\nid = 'x'\n\
                issuer = 'https://id.example'\nclient_id = 'c'\nclient_secret_file = 'missing'\ndefault_role = 'viewer'\n";
    let (code, said) = refusal(&Setup::default().organization(file), home.path());
    assert!(code != 0 && said.contains("client_secret_file") && said.contains("missing"), "{code}: {said}");
}

/// Creates a token while signed in.
async fn token_of(server: &Server, browser: &Browser) -> crate::support::Client {
    let cookie = browser.cookie(server, "lockkeeper").unwrap();
    let client = server.anonymous();
    let request = client.request(Method::POST, "/api/v1/organizations/acme/tokens").json(&json!({ "name": "x" }));
    let request = request.header("Cookie", format!("lockkeeper={cookie}")).header("Sec-Fetch-Site", "same-origin");
    server.with_token(client.send(request).await.created().data()["token"].as_str().unwrap())
}

#[tokio::test]
async fn what_came_from_a_provider_ends_when_it_leaves_the_file_and_nobody_gets_a_first_password_by_it() {
    let Some(provider) = Provider::start(&["--user", "ana:developers"]) else { return };
    let mut server = provider.serve("").await;
    let mut browser = Browser::new();
    browser.sign_in(&server, "ana").await;
    let cookie = browser.cookie(&server, "lockkeeper").unwrap();
    let client = server.anonymous();
    let password = client.request(Method::POST, "/auth/password").json(&json!({ "newPassword": "correct horse" }));
    let password = password.header("Cookie", format!("lockkeeper={cookie}")).header("Sec-Fetch-Site", "same-origin");
    client.send(password).await.refused(403, "invitation_required");
    let token = token_of(&server, &browser).await;
    token.get("/pipelines").await.ok();

    let file = provider.organization("");
    let without = &file[..file.find("[[providers]]").unwrap()];
    for organization in [without, &file] {
        assert!(server.terminate().success());
        server.change_setup(|setup| setup.organizations(&[organization]));
        server.start_again();
        token.clone().at(&server).get("/pipelines").await.refused(401, "invalid_token");
        let client = server.anonymous();
        let request = client.request(Method::GET, "/api/v1/whoami").header("Cookie", format!("lockkeeper={cookie}"));
        client.send(request.header("Sec-Fetch-Site", "same-origin")).await.refused(401, "invalid_token");
    }
}

#[tokio::test]
async fn a_provider_that_leaves_or_gives_less_while_the_server_runs_takes_along_what_came_from_it() {
    let Some(provider) = Provider::start(&["--user", "ana:developers"]) else { return };
    let file = provider.organization("");
    let less = file.replace("'admin' }", "'viewer' }").replace("'developer' }", "'viewer' }");
    let without = &file[..file.find("[[providers]]").unwrap()];
    for changed in [&less, without] {
        let server = provider.serve("").await;
        let mut browser = Browser::new();
        browser.sign_in(&server, "ana").await;
        let token = token_of(&server, &browser).await;
        token.get("/pipelines").await.ok();
        redeclare(&server, changed);
        until_refused(&token).await;
        browser.whoami(&server).await.refused(401, "invalid_token");
    }
}

#[tokio::test]
async fn a_provider_for_viewers_does_not_sign_in_an_admin_with_the_same_address() {
    let Some(provider) = Provider::start(&["--user", "root:viewers"]) else { return };
    let file = provider.organization("").replace("'admin' }", "'viewer' }").replace("'developer' }", "'viewer' }");
    assert!(file.contains("'viewer'"), "{file}");
    let server = Setup::default().organization(&file).start();
    provider.returns_to(&server).await;
    let admin = server.admin();
    let root = admin.get("/members?name=root").await.ok().data()[0]["userId"].as_str().unwrap().to_owned();
    let path = admin.path(&format!("/members/{root}"));
    admin.send(admin.request(Method::PATCH, &path).json(&json!({ "email": "root@acme.example" }))).await.ok();
    let mut browser = Browser::new();
    assert_eq!(error_of(&browser.sign_in(&server, "root").await), "sso_above_provider");
    browser.whoami(&server).await.refused(401, "missing_token");
    assert_eq!(admin.get("/members?name=root").await.ok().data()[0]["role"], "admin");
}
