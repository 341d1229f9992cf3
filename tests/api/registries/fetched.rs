//! Registries whose steps are in a repository, over `file://` with the real git.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::registries::{Remote, git_is_usable, greet, make, place, program, scratch_is_empty, steps, sync};
use crate::support::{Client, Server, Setup, assert_fields, assert_has};

#[tokio::test]
async fn a_repository_is_fetched_pinned_and_synced() {
    if !git_is_usable() {
        return;
    }
    let (server, remote) = (Server::start(), Remote::new());
    let mia = server.as_user("mia").await;
    let first = remote.sh("cd clone && git rev-parse HEAD");
    let registry = make(&mia, remote.registry("tools", "main")).await.data();
    assert_has(&registry, json!({ "status": "ready", "error": null, "errors": [], "stepCount": 1 }));
    assert_eq!(registry["git"], json!({ "url": remote.url(), "ref": "main", "commit": first, "credential": null }));
    assert!(registry["syncedAt"].is_string());

    remote.write("steps/greet.toml", &greet("1", "good day"));
    remote.write("steps/greet-2.toml", &greet("2", "hi"));
    let second = remote.push();
    assert_eq!(mia.get(&place(&registry)).await.data()["git"]["commit"], first, "it is pinned until it is synced");
    let synced = sync(&mia, &registry).await.ok().data();
    assert_fields(&synced, "registryId commit previousCommit added changed removed stepCount syncedAt");
    assert_has(
        &synced,
        json!({ "commit": second, "previousCommit": first, "added": ["greet@2"], "changed": ["greet@1"], "removed": [] }),
    );
    remote.remove("steps/greet.toml");
    let third = remote.push();
    let synced = sync(&mia, &registry).await.ok().data();
    assert_has(&synced, json!({ "commit": third, "added": [], "changed": [], "removed": ["greet@1"], "stepCount": 1 }));
    let nothing = sync(&mia, &registry).await.ok().data();
    assert_has(
        &nothing,
        json!({ "commit": third, "previousCommit": third, "added": [], "changed": [], "removed": [] }),
    );
    assert_eq!(steps(&mia, &registry).await, ["greet@2"]);

    remote.sh("cd clone && git tag -a v1 -m x HEAD~2 && git push -q origin v1");
    let tagged = make(&mia, remote.registry("tagged", "v1")).await.data();
    assert_eq!(tagged["git"]["commit"], first, "an annotated tag leads to its commit");
    let moved = mia.put(&place(&tagged), remote.registry("tagged", "main")).await.ok().data();
    assert_eq!(moved["git"]["commit"], third);
    assert!(scratch_is_empty(&server));
}

#[tokio::test]
async fn a_bad_file_is_named_with_all_that_is_wrong_and_the_steps_stay() {
    if !git_is_usable() {
        return;
    }
    let (server, remote) = (Server::start(), Remote::new());
    let mia = server.as_user("mia").await;
    let registry = make(&mia, remote.registry("tools", "main")).await.data();
    remote.write("steps/bad.toml", "name = \"bad\"\nrun = []\n");
    remote.write("steps/binary.toml", "\0");
    remote.write("steps/huge.toml", &format!("# {}\n", "x".repeat(60 * 1024)));
    remote.write("steps/same.toml", &greet("1", "again"));
    remote.write("steps/README.md", "not a step");
    let pushed = remote.push();
    let refused = sync(&mia, &registry).await.refused(409, "sync_failed");
    let told: Vec<_> = refused.faulty_fields();
    for file in ["bad", "binary", "huge", "same"] {
        assert!(told.contains(&format!("steps/{file}.toml")), "{refused:?}");
    }
    let shown = mia.get(&place(&registry)).await.ok().data();
    assert_has(
        &shown,
        json!({ "status": "failed", "stepCount": 1, "syncedAt": registry["syncedAt"], "git": registry["git"] }),
    );
    assert!(shown["error"].as_str().unwrap().contains("steps/bad.toml"), "{shown}");
    assert_eq!(shown["errors"].as_array().unwrap().len(), told.len());
    assert_eq!(steps(&mia, &registry).await, ["greet@1"]);

    for file in ["bad", "binary", "huge", "same"] {
        remote.remove(&format!("steps/{file}.toml"));
    }
    let mended = remote.push();
    assert_ne!(mended, pushed);
    assert_eq!(sync(&mia, &registry).await.ok().data()["commit"], mended);
    let shown = mia.get(&place(&registry)).await.ok().data();
    assert_has(&shown, json!({ "status": "ready", "error": null, "errors": [] }));
}

#[tokio::test]
async fn what_cannot_be_had_says_why_and_leaves_the_steps() {
    if !git_is_usable() {
        return;
    }
    let (server, remote) = (Server::start(), Remote::new());
    let mia = server.as_user("mia").await;
    remote.sh("cd clone && git push -q origin HEAD:short-lived");
    let registry = make(&mia, remote.registry("tools", "short-lived")).await.data();
    let fails = |why: &'static str| {
        let (mia, registry) = (mia.clone(), registry.clone());
        async move {
            let refused = sync(&mia, &registry).await.refused(409, "sync_failed");
            assert!(refused.json()["detail"].as_str().unwrap().contains(why), "{refused:?}");
            let shown = mia.get(&place(&registry)).await.ok().data();
            assert_has(&shown, json!({ "status": "failed", "stepCount": 1, "git": registry["git"] }));
            assert!(shown["error"].as_str().unwrap().contains(why), "{shown}");
        }
    };
    remote.sh("git -C remote.git branch -q -D short-lived");
    fails("no branch or tag short-lived").await;
    remote.sh("cd clone && git rm -q -r steps && git commit -qm x && git push -q origin HEAD:short-lived");
    fails("no steps/*.toml").await;
    symlink("/etc/passwd", remote.path("clone/link.toml")).unwrap();
    remote.sh("cd clone && mkdir steps && mv link.toml steps && git add -A && git commit -qm x && git push -q origin HEAD:short-lived");
    fails("no steps/*.toml").await;
    remote.write("steps/huge.toml", &format!("# {}\n", "x".repeat(200 * 1024)));
    remote.sh("cd clone && git add -A && git commit -qm x && git push -q origin HEAD:short-lived");
    fails("at most 65536 bytes").await;
    std::fs::remove_dir_all(remote.path("remote.git")).unwrap();
    fails("not found").await;
    assert!(!mia.get(&place(&registry)).await.text.contains(server.data_dir().to_str().unwrap()));

    let missing = make(&mia, remote.registry("missing", "main")).await.data();
    assert_has(&missing, json!({ "status": "failed", "stepCount": 0, "syncedAt": null }));
    assert_eq!(missing["git"]["commit"], Value::Null);
    let moved = mia.put(&place(&registry), remote.registry("tools", "main")).await.refused(409, "sync_failed");
    assert!(moved.json()["detail"].as_str().unwrap().contains("not found"), "{moved:?}");
    assert_eq!(mia.get(&place(&registry)).await.data()["git"]["ref"], "short-lived", "nothing has changed");
    assert!(scratch_is_empty(&server));
}

#[tokio::test]
async fn repositories_of_the_server_are_named_only_where_the_operator_allows_it() {
    let allowed = |value: &str| Setup::default().variable("LOCKKEEPER_GIT_ALLOW_FILE_URLS", value).start();
    let body = json!({ "name": "tools", "git": { "url": "file:///srv/none.git", "ref": "main" } });
    let server = allowed("false");
    let refused = server.admin().post("/step-registries", body.clone()).await;
    assert_eq!(refused.faulty_fields(), ["git.url"]);
    assert!(refused.text.contains("allow_file_urls"), "{refused:?}");
    make(&allowed("true").admin(), body.clone()).await;
    let own = include_str!("../../../config/acme.toml");
    let server = Setup::default().organization(own).start();
    assert_eq!(server.admin().post("/step-registries", body).await.faulty_fields(), ["git.url"], "not the sample");
}

#[tokio::test]
async fn a_server_without_git_says_so() {
    let server = Setup::default().variable("LOCKKEEPER_GIT_PROGRAM", "no-such-git").start();
    let body = json!({ "name": "tools", "git": { "url": "https://git.example/x", "ref": "main" } });
    let registry = make(&server.admin(), body).await.data();
    assert_eq!(registry["status"], "failed");
    assert!(registry["error"].as_str().unwrap().starts_with("git is not installed: "), "{registry}");
}

/// A script in place of git that reports its input.
fn telling_git(home: &Path) -> String {
    let seen = home.join("seen");
    program(
        home,
        &format!("env > {0}.env\necho \"$@\" > {0}.args\nenv | sed 's/^/fatal: /' >&2\nexit 1", seen.display()),
    )
}

#[tokio::test]
async fn a_credential_is_read_at_each_sync_and_shown_to_nobody() {
    const TOKEN: &str = "ghp-7f3e9d2c5a1b";
    let home = tempfile::tempdir().unwrap();
    let program = telling_git(home.path());
    let server = Setup::default().variable("LOCKKEEPER_GIT_PROGRAM", &program).start();
    let mia: Client = server.as_user("mia").await;
    let git = json!({ "url": "https://git.example/x", "ref": "main", "credential": "STEPS_TOKEN" });
    let made = make(&mia, json!({ "name": "tools", "git": git })).await;
    let why = made.data()["error"].as_str().unwrap().to_owned();
    assert!(why.contains("the secret STEPS_TOKEN, does not exist"), "{why}");
    assert_eq!(made.data()["git"]["credential"], "STEPS_TOKEN");

    mia.post("/secrets", json!({ "name": "STEPS_TOKEN", "value": TOKEN })).await.created();
    let refused = sync(&mia, &made.data()).await.refused(409, "sync_failed");
    let seen = |extension: &str| std::fs::read_to_string(home.path().join("seen").with_extension(extension)).unwrap();
    let encoded = "eC1hY2Nlc3MtdG9rZW46Z2hwLTdmM2U5ZDJjNWExYg==";
    assert!(seen("env").contains(&format!("Authorization: Basic {encoded}")), "{}", seen("env"));
    assert!(!seen("env").contains("LOCKKEEPER_"), "nothing of the server's own: {}", seen("env"));
    let shown = mia.get(&place(&made.data())).await.ok();
    for text in [&refused.text, &shown.text, &seen("args"), &server.log()] {
        assert!(!text.contains(TOKEN) && !text.contains(encoded), "{text}");
    }
}
