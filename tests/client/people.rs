//! People and their tokens: `login`, `logout`, `whoami`, `tokens`.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use serde_json::json;

use crate::program::User;
use crate::support::{ADMIN_TOKEN, Server, assert_has};
use crate::terminal::{has_script, type_on_terminal};

#[tokio::test]
async fn whoami_tells_member_role_and_organization() {
    let server = Server::start();
    let ana = User::member(&server, "ana").await;
    ana.run(&["whoami"]).ok().says("ana").says("developer").says("acme").says(&server.address);
    assert_has(&ana.json(&["whoami"]), json!({ "role": "developer" }));
    User::of(&server, "lk_0000000000000000000000000000000000000").run(&["whoami"]).with_code(77);
    User::admin(&server).run(&["envs", "--org", "globex"]).with_code(66);
}

#[tokio::test]
async fn a_login_is_kept_for_its_owner_alone_until_the_logout() {
    let server = Server::start();
    let user = User::new();
    user.run(&["envs", "--url", &server.address]).with_code(77).complains("lockkeeper login");
    let login = ["login", "--url", &server.address, "--pipeline", "web", "--token-stdin"];
    let done = user.run_with_stdin(&login, &format!("{ADMIN_TOKEN}\n")).ok().says("admin").complains("profile default");
    assert!(!done.stdout.contains(ADMIN_TOKEN) && !done.stderr.contains(ADMIN_TOKEN));
    assert_eq!(user.profiles().metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(user.profiles().parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
    user.run(&["envs"]).ok().says("review-1");
    // Its token is not sent to another server.
    user.run(&["envs", "--url", "http://127.0.0.1:9"]).with_code(77).complains("no token for http://127.0.0.1:9");
    user.run(&["logout"]).ok();
    user.run(&["envs", "--url", &server.address]).with_code(77);
    user.run(&["logout"]).with_code(66);
}

#[tokio::test]
async fn a_token_is_asked_for_on_the_terminal_without_showing_it() {
    if !has_script() {
        return;
    }
    let server = Server::start();
    let user = User::new();
    let login = format!("login --url {} --pipeline web", server.address);
    // With a typing mistake, which is erased.
    let shown = type_on_terminal(&user, "TERM=dumb", &login, "Token for", &format!("x\u{7f}{ADMIN_TOKEN}\n"));
    assert!(shown.contains("logged in: profile default") && !shown.contains(ADMIN_TOKEN), "{shown}");
    user.run(&["envs"]).ok().says("review-1");
    let shown = type_on_terminal(&user, "TERM=dumb", &login, "Token for", "\u{3}");
    assert!(shown.contains("interrupted"), "{shown}");
}

#[tokio::test]
async fn a_token_that_the_server_refuses_is_not_kept() {
    let server = Server::start();
    let user = User::new();
    let login = ["login", "--url", &server.address, "--token-stdin"];
    user.run_with_stdin(&login, "lk_0000000000000000000000000000000000000\n").with_code(77);
    user.run_with_stdin(&login, "\n").with_code(2);
    user.run(&["login", "--url", &server.address]).with_code(2).complains("--token-stdin");
    let elsewhere = ["login", "--url", &server.address, "--org", "globex", "--token-stdin"];
    user.run_with_stdin(&elsewhere, ADMIN_TOKEN).with_code(77).complains("not for globex");
    let no_pipeline = ["login", "--url", &server.address, "--pipeline", "nope", "--token-stdin"];
    user.run_with_stdin(&no_pipeline, ADMIN_TOKEN).with_code(66);
    assert!(!user.profiles().exists());
}

#[tokio::test]
async fn profiles_are_chosen_by_name() {
    let server = Server::start();
    let user = User::new();
    for (profile, name) in [("of-ana", "ana"), ("of-ben", "ben")] {
        let made = server.admin().post("/tokens", json!({ "name": "x", "user": name })).await.created();
        let login = ["login", "--url", &server.address, "--profile", profile, "--token-stdin"];
        user.run_with_stdin(&login, made.data()["token"].as_str().unwrap()).ok();
    }
    user.run(&["whoami"]).ok().says("ben");
    user.run(&["whoami", "--profile", "of-ana"]).ok().says("ana");
    user.run(&["whoami", "--profile", "of-eve"]).with_code(2).complains("there are: of-ana, of-ben");
    let user = user.with("LOCKKEEPER_PROFILE", "of-ana");
    user.run(&["whoami"]).ok().says("ana");
    user.run(&["logout", "--revoke"]).ok();
    let listed = server.admin().get("/tokens?limit=100").await.ok().data();
    let of_ana = listed.as_array().unwrap().iter().filter(|token| token["user"]["name"] == "ana").count();
    assert_eq!(of_ana, 0, "{listed:#}");
}

#[tokio::test]
async fn a_profile_that_others_can_read_is_refused() {
    let server = Server::start();
    let user = User::new();
    let login = ["login", "--url", &server.address, "--token-stdin"];
    user.run_with_stdin(&login, ADMIN_TOKEN).ok();
    std::fs::set_permissions(user.profiles(), std::fs::Permissions::from_mode(0o644)).unwrap();
    user.run(&["whoami"]).with_code(2).complains("has mode 644").complains("chmod 600");
    std::fs::set_permissions(user.profiles(), std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(user.profiles(), "[profiles.x]\ntoken = \"lk_secret\n").unwrap();
    let broken = user.run(&["whoami"]).with_code(2).complains("profiles.toml");
    assert!(!broken.stderr.contains("lk_secret"), "{}", broken.stderr);
}

#[tokio::test]
async fn tokens_are_listed_created_and_revoked() {
    let server = Server::start();
    let admin = User::admin(&server);
    let created = admin.run(&["tokens", "create", "ci", "--user", "ana", "--days", "90"]).ok();
    let token = created.stdout.trim();
    User::of(&server, token).run(&["whoami"]).ok().says("ana");
    let made = admin.json(&["tokens", "create", "more"]);
    let id = made["tokenId"].as_str().unwrap();
    admin.run(&["tokens"]).ok().says("TOKEN").says(id).says("in 89 d");
    assert!(admin.json(&["tokens", "list", "--mine"]).as_array().unwrap().iter().any(|token| token["name"] == "more"));
    admin.run(&["tokens", "revoke", id]).ok().complains("revoked");
    admin.run(&["tokens", "revoke", id]).with_code(66);
    User::of(&server, made["token"].as_str().unwrap()).run(&["whoami"]).with_code(77);
    admin.run(&["tokens", "create", "late", "--expires", "2020-01-01T00:00:00Z"]).with_code(2).complains("expiresAt");
    admin.run(&["tokens", "create", "late", "--expires", "tomorrow"]).with_code(2);
    User::of(&server, token).run(&["tokens", "create", "x", "--user", "mia"]).with_code(77);
}
