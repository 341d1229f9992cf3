//! Objects that an organization file no longer declares: reported or removed, at a start and on SIGHUP.

use serde_json::{Value, json};

use crate::support::waiting::until as until_holds;
use crate::support::{Client, Server, Setup, at, lockkeeper};

/// `web` with these environments, and the given additions.
fn file(prune: &str, environments: &[&str], more: &str) -> String {
    let head = format!(
        "[organization]\nid = \"acme\"\nprune = \"{prune}\"\n[[members]]\nname = \"admin\"\nrole = \"admin\"\n"
    );
    let environment = |name: &&str| {
        format!(
            "[[pipelines.environments]]\nname = \"{name}\"\nlabels = {{ kind = \"review\" }}\ndefault_ttl_seconds = 600\n"
        )
    };
    let environments: String = environments.iter().map(environment).collect();
    format!("{head}{more}[[pipelines]]\nid = \"web\"\nstages = []\n{environments}")
}

const LOGIN: &str = "[[providers]]\nid = \"corp\"\nissuer = \"https://id.acme.example\"\nclient_id = \"lock\"\n\
                     roles = [{ group = \"all\", role = \"viewer\" }]\n[[identities]]\nissuer = \"https://ci.acme.example\"\n\
                     audience = \"lock\"\nrules = [{ claims = { project = \"web\" }, role = \"developer\", name = \"ci\" }]\n";

const DOCS: &str = "[[pipelines]]\nid = \"docs\"\nstages = []\n[[pipelines.environments]]\nname = \"docs-1\"\n";

fn start(file: &str) -> Server {
    Setup::default().organization(file).start()
}

pub fn redeclare(server: &Server, file: &str) {
    std::fs::write(server.home().join("organization-0.toml"), file).unwrap();
    server.signal("-HUP");
}

#[tokio::test]
async fn what_is_no_longer_declared_stays_and_is_named_unless_it_is_to_be_removed() {
    let mut server = start(&file("report", &["review-1", "review-2"], DOCS));
    let told = "the file no longer declares these; they stay (prune = \"report\") organization=acme pipelines=\"docs\" \
                environments=\"docs/docs-1, web/review-2\"";
    assert!(!server.log().contains("no longer declares"), "{}", server.log());
    let less = file("report", &["review-1"], "");
    redeclare(&server, &less);
    until_logged(&server, told, 1).await;
    server.admin().environment("review-2").await.ok();
    assert!(server.terminate().success());
    server.change_setup(|setup| setup.organizations(&[&less]));
    server.start_again();
    until_logged(&server, told, 2).await;
    let admin = server.admin();
    admin.environment("review-2").await.ok();
    admin.get("/pipelines/docs/ephemeral-environments/docs-1").await.ok();
}

#[tokio::test]
async fn what_is_free_is_removed_and_what_is_held_when_it_is_released() {
    let mut server = start(&file("apply", &["review-1", "review-2"], DOCS));
    let admin = server.admin();
    admin.put(&at("by-hand"), json!({ "labels": { "kind": "hand" } })).await.created();
    let held = admin.claim("review-2", json!({})).await.created().session();
    let polled = admin.enqueue("review-2", json!({ "queue": true })).await.session();
    let waiting = admin.wait_in_line("review-2", json!({ "waitSeconds": 60 }), 2).await;
    let less = file("apply", &["review-1", "review-9"], "");
    redeclare(&server, &less);

    let refused = waiting.await.unwrap().refused(409, "environment_disabled").json();
    assert!(refused["reason"].as_str().unwrap().contains("no longer declares it"), "{refused}");
    until_logged(&server, "removed a pipeline that the file no longer declares", 1).await;
    admin.get("/pipelines/docs").await.refused(404, "pipeline_not_found");
    assert_eq!(admin.session("review-2", &polled).await.ok().data()["lockStatus"], "released");
    admin.environment("review-9").await.ok();
    admin.claim("review-2", json!({})).await.refused(409, "environment_disabled");
    let by_label = |ttl: u64| json!({ "labels": { "kind": "review" }, "ttlSeconds": ttl });
    let mut granted = Vec::new();
    for _ in 0..2 {
        granted.push(admin.claim_any(by_label(600)).await.created().data()["envName"].clone());
    }
    granted.sort_by_key(Value::to_string);
    assert_eq!(granted, ["review-1", "review-9"]);

    // The holder keeps it, through a crash too.
    server.kill();
    server.change_setup(|setup| setup.organizations(&[&less]));
    server.start_again();
    let admin = admin.at(&server);
    admin.heartbeat("review-2", &held).await.ok();
    // It is put back into service: the file's configuration still applies.
    admin.put(&at("review-2"), json!({})).await.ok();
    until(&admin, "review-2", |answer| answer["data"]["configuration"]["disabled"] == true).await;
    admin.release("review-2", &held).await.ok();
    until(&admin, "review-2", |answer| answer["code"] == "environment_not_found").await;
    admin.environment("by-hand").await.ok();
    // The name is free again, and an environment created through the API stays.
    admin.put(&at("review-2"), json!({})).await.created();
    assert!(server.terminate().success());
    server.start_again();
    let begin = server.log().len();
    server.signal("-HUP");
    until_logged(&server, "reloaded changed=\"nothing\"", 1).await;
    server.admin().environment("review-2").await.ok();
    assert!(!server.log()[begin..].contains("no longer declares"), "{}", server.log());
}

#[tokio::test]
async fn a_start_and_a_reload_name_what_they_create_change_and_remove() {
    let zoe = "[[members]]\nname = \"zoe\"\nrole = \"viewer\"\n";
    let mut server = start(&file("apply", &["review-1", "review-2"], zoe));
    let said = |changes: &str| format!("applying what the file has changed organization=acme changes=\"{changes}\"");
    let first = "create member admin, create member zoe, create pipeline web, create environment web/review-1, \
                 create environment web/review-2";
    until_logged(&server, &said(first), 1).await;
    let renamed = |text: String| text.replace("id = \"acme\"", "id = \"acme\"\nname = \"Acme Ltd\"");
    let with_login = renamed(file("apply", &["review-1", "review-3"], LOGIN));
    redeclare(&server, &with_login);
    let second = "change name to Acme Ltd, create provider corp, create issuer https://ci.acme.example, remove member zoe, \
                  remove environment web/review-2, create environment web/review-3";
    until_logged(&server, &said(second), 1).await;
    until_logged(&server, "removed an environment that the file no longer declares", 1).await;
    assert!(server.terminate().success());
    // The same file again changes nothing; the next one removes the issuer.
    let less = with_login
        .replace("client_id = \"lock\"", "client_id = \"key\"")
        .replace("audience = \"lock\"", "audience = \"key\"");
    let check = |server: &Server, text: &str| {
        let new = server.home().join("new.toml");
        std::fs::write(&new, text).unwrap();
        let output = lockkeeper(&["check", "--diff", "--data-dir"]).arg(server.data_dir()).arg(&new).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(check(&server, &with_login), ["nothing would change"]);
    let expected = ["acme: change provider corp", "acme: change issuer https://ci.acme.example"];
    assert_eq!(check(&server, &less), expected);
    let none = renamed(file("apply", &["review-1", "review-3"], ""));
    server.change_setup(|setup| setup.organizations(&[&none]));
    server.start_again();
    until_logged(&server, &said("remove provider corp, remove issuer https://ci.acme.example"), 1).await;
}

#[tokio::test]
async fn an_environment_that_is_held_while_its_file_forgets_it_serves_again_when_it_is_declared_or_kept() {
    let all = ["review-1", "review-2"];
    let mut server = start(&file("apply", &all, ""));
    let admin = server.admin();
    let held = admin.claim("review-2", json!({})).await.created().session();
    let is_disabled = |wanted: bool| move |answer: &Value| answer["data"]["configuration"]["disabled"] == wanted;
    let new = server.home().join("new.toml");
    for (put_back, logged) in [(file("apply", &all, ""), "apply"), (file("report", &["review-1"], ""), "report")] {
        redeclare(&server, &file("apply", &["review-1"], ""));
        until(&server.admin(), "review-2", is_disabled(true)).await;
        std::fs::write(&new, &put_back).unwrap();
        assert!(server.terminate().success());
        let mut check = lockkeeper(&["check", "--diff", "--data-dir"]);
        let said = check.arg(server.data_dir()).arg(&new).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let expected = match logged {
            "apply" => "acme: change environment web/review-2",
            _ => "acme: enable environment web/review-2 (it was to be removed when it is released)",
        };
        assert!(said.lines().any(|line| line == expected), "{said}");
        server.change_setup(|setup| setup.organizations(&[&file("apply", &["review-1"], "")]));
        server.start_again();
        redeclare(&server, &put_back);
        let admin = server.admin();
        until(&admin, "review-2", is_disabled(false)).await;
        // The holder is not affected.
        admin.heartbeat("review-2", &held).await.ok();
    }
    let admin = server.admin();
    admin.release("review-2", &held).await.ok();
    admin.claim("review-2", json!({})).await.created();
}

#[tokio::test]
async fn one_that_somebody_has_disabled_stays_so_when_its_removal_is_called_off() {
    let server = start(&file("apply", &["review-1", "review-2"], ""));
    let admin = server.admin();
    let held = admin.claim("review-2", json!({})).await.created().session();
    admin.put(&at("review-2"), json!({ "disabled": true })).await.ok();
    redeclare(&server, &file("apply", &["review-1"], ""));
    until_logged(&server, "removing what the file no longer declares", 1).await;
    redeclare(&server, &file("report", &["review-1"], ""));
    until_logged(&server, "they stay (prune = \"report\")", 1).await;
    admin.release("review-2", &held).await.ok();
    admin.claim("review-2", json!({})).await.refused(409, "environment_disabled");
}

#[tokio::test]
async fn a_pipeline_with_environments_of_the_api_stays_until_they_are_gone() {
    let server = start(&file("apply", &["review-1"], DOCS));
    let admin = server.admin();
    let path = "/pipelines/docs/ephemeral-environments/by-hand";
    admin.put(path, json!({})).await.created();
    redeclare(&server, &file("apply", &["review-1"], ""));
    until_logged(&server, "it has environments that the API made", 1).await;
    admin.get(path).await.ok();
    admin.get("/pipelines/docs/ephemeral-environments/docs-1").await.refused(404, "environment_not_found");
    admin.delete(path).await.has_status(204);
    server.signal("-HUP");
    until_logged(&server, "removed a pipeline that the file no longer declares", 1).await;
}

#[tokio::test]
async fn a_file_that_was_emptied_by_accident_removes_nothing() {
    let server = start(&file("apply", &["review-1", "review-2"], DOCS));
    let admin = server.admin();
    let empty = "[organization]\nid = \"acme\"\nprune = \"apply\"\n[[members]]\nname = \"admin\"\nrole = \"admin\"\n";
    redeclare(&server, empty);
    until_logged(&server, "delete the last ones through the API", 1).await;
    redeclare(&server, &file("apply", &[], DOCS));
    until_logged(&server, "delete the last ones through the API", 2).await;
    for environment in ["review-1", "review-2"] {
        admin.environment(environment).await.ok();
    }
    admin.get("/pipelines/docs/ephemeral-environments/docs-1").await.ok();
    assert!(!server.log().contains("removed a"), "{}", server.log());
}

#[test]
fn a_check_shows_before_what_would_be_created_changed_and_removed() {
    let zoe = "[[members]]\nname = \"zoe\"\nrole = \"viewer\"\n";
    let mut server = start(&file("report", &["review-1", "review-2"], &format!("{zoe}{DOCS}")));
    let new = server.home().join("new.toml");
    let diff = |server: &Server| {
        let mut command = lockkeeper(&["check", "--diff", "--data-dir"]);
        let output = command.arg(server.data_dir()).arg(&new).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    let less = file("report", &["review-1", "review-9"], "").replace("id = \"web\"", "id = \"web\"\nname = \"Shop\"");
    std::fs::write(&new, &less).unwrap();
    let (code, said) = diff(&server);
    assert!(code == Some(1) && said.contains("is in use by process"), "{said}");
    assert!(server.terminate().success());
    let lines = |said: &str| said.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let (code, said) = diff(&server);
    let expected = [
        "acme: remove member zoe",
        "acme: remove pipeline docs (stays: prune = \"report\")",
        "acme: change pipeline web",
        "acme: remove environment docs/docs-1 (stays: prune = \"report\")",
        "acme: remove environment web/review-2 (stays: prune = \"report\")",
        "acme: create environment web/review-9",
    ];
    assert_eq!((code, lines(&said)), (Some(0), expected.map(str::to_owned).to_vec()), "{said}");
    std::fs::write(&new, less.replace("report\"\n", "apply\"\n")).unwrap();
    assert_eq!(diff(&server).1.matches("stays").count(), 0);
    std::fs::write(&new, file("apply", &[], DOCS)).unwrap();
    assert_eq!(diff(&server).1.matches("(stays: the file declares no other)").count(), 2);
    server.start_again();
    server.terminate();
    std::fs::copy(server.home().join("organization-0.toml"), &new).unwrap();
    let output = lockkeeper(&["check", "--diff", "--data-dir"]).arg(server.data_dir()).arg(&new).output().unwrap();
    assert_eq!(lines(&String::from_utf8(output.stdout).unwrap()), ["nothing would change"]);
}

#[tokio::test]
async fn members_and_definitions_are_taken_over_without_a_restart() {
    let zoe = "[[members]]\nname = \"zoe\"\nrole = \"developer\"\n";
    let server = start(&file("report", &["review-1"], zoe));
    let zoe_client = server.as_user("zoe").await;
    zoe_client.environment("review-1").await.ok();
    let max = "[[members]]\nname = \"max\"\nrole = \"viewer\"\n";
    let renamed = file("report", &["review-1"], max).replace("id = \"acme\"", "id = \"acme\"\nname = \"Acme Ltd\"");
    redeclare(&server, &renamed.replace("id = \"web\"", "id = \"web\"\nname = \"Shop\""));
    until_logged(&server, "reloaded changed=\"acme\"", 1).await;
    // Logged once by the start.
    until_logged(&server, "applied declared pipelines changed=1", 2).await;
    zoe_client.environment("review-1").await.refused(401, "invalid_token");
    server.as_user("max").await.environment("review-1").await.ok();
    let admin = server.admin();
    assert_eq!(admin.get("/pipelines/web").await.ok().data()["name"], "Shop");
    let who = admin.send(admin.request(reqwest::Method::GET, "/api/v1/whoami")).await.ok();
    assert_eq!(who.data()["organization"]["name"], "Acme Ltd");
}

async fn until(client: &Client, environment: &str, holds: impl Fn(&Value) -> bool) {
    until_holds(environment, async || holds(&client.environment(environment).await.json())).await;
}

/// Waits until the file is applied, some time after the signal.
pub async fn until_refused(client: &Client) {
    until_holds("the token ends", async || client.get("/pipelines").await.status == 401).await;
}

async fn until_logged(server: &Server, part: &str, times: usize) {
    let what = format!("{part} is logged {times} times");
    until_holds(&what, async || server.log().matches(part).count() >= times).await;
}
