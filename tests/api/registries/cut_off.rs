//! Concurrent, abandoned, and interrupted syncs.

use std::path::Path;

use serde_json::json;

use crate::support::registries::{Remote, git_is_usable, greet, make, place, program, scratch_is_empty, steps, sync};
use crate::support::waiting::until;
use crate::support::{Server, Setup};

/// The real git, which before a command named in the file `hold` waits until that file is gone, and reports it in a
/// file `held`.
fn holding_git(home: &Path) -> String {
    let (hold, held) = (home.join("hold"), home.join("held"));
    let script = format!(
        "if test \"$1\" = \"$(cat {0} 2>/dev/null)\"; then echo $$ > {1}.new; mv {1}.new {1}; \
         while test -e {0}; do sleep 0.05; done; fi\nexec git \"$@\"",
        hold.display(),
        held.display()
    );
    program(home, &script)
}

struct Harness {
    server: Server,
    remote: Remote,
    home: tempfile::TempDir,
}

impl Harness {
    fn start(timeout_seconds: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let program = holding_git(home.path());
        let setup = Setup::default().variable("LOCKKEEPER_GIT_PROGRAM", &program);
        let server = setup.variable("LOCKKEEPER_GIT_TIMEOUT_SECONDS", timeout_seconds).start();
        Self { server, remote: Remote::new(), home }
    }

    fn hold(&self, command: &str) {
        std::fs::write(self.home.path().join("hold"), command).unwrap();
    }

    fn let_go(&self) {
        std::fs::remove_file(self.home.path().join("hold")).unwrap();
    }

    /// Waits until git waits; returns its process.
    async fn held(&self) -> String {
        let held = self.home.path().join("held");
        until("git waits", async || held.exists()).await;
        let process = std::fs::read_to_string(&held).unwrap();
        std::fs::remove_file(held).unwrap();
        process.trim().to_owned()
    }
}

/// Waits for the end of a process that was killed.
async fn ended(process: &str) {
    let stat = Path::new("/proc").join(process).join("stat");
    let has_ended = async || !std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    until("the process has ended", has_ended).await;
}

#[tokio::test]
async fn only_one_sync_of_a_registry_runs_at_a_time() {
    if !git_is_usable() {
        return;
    }
    let harness = Harness::start("60");
    let mia = harness.server.as_user("mia").await;
    let registry = make(&mia, harness.remote.registry("tools", "main")).await.data();
    let other = make(&mia, harness.remote.registry("other", "main")).await.data();
    harness.hold("fetch");
    let first = tokio::spawn({
        let (mia, registry) = (mia.clone(), registry.clone());
        async move { sync(&mia, &registry).await }
    });
    harness.held().await;
    assert_eq!(mia.get(&place(&registry)).await.data()["status"], "syncing");
    let refused = sync(&mia, &registry).await.refused(409, "sync_in_progress");
    assert!(!refused.header("retry-after").is_empty());
    let moved = mia.put(&place(&registry), json!({ "name": "tools", "steps": [] })).await.ok().data();
    assert_eq!(moved["git"], json!(null));
    harness.let_go();
    first.await.unwrap().refused(412, "precondition_failed");
    assert!(steps(&mia, &registry).await.is_empty(), "what was fetched is not of its repository any more");
    assert_eq!(mia.get(&place(&registry)).await.data()["status"], "ready");
    sync(&mia, &other).await.ok();
}

#[tokio::test]
async fn a_sync_that_the_death_of_the_server_cuts_off_leaves_everything_as_it_was() {
    if !git_is_usable() {
        return;
    }
    let mut harness = Harness::start("60");
    let mia = harness.server.as_user("mia").await;
    let made = make(&mia, harness.remote.registry("tools", "main")).await.data();
    harness.remote.write("steps/greet.toml", &greet("2", "hi"));
    let second = harness.remote.push();
    harness.hold("fetch");
    let at_sync = format!("{}/sync", place(&made));
    let more = harness.remote.registry("more", "main");
    for cut_off in [(at_sync.as_str(), "k-sync", json!({})), ("/step-registries", "k-make", more.clone())] {
        let (path, key, body) = cut_off;
        let client = mia.clone().at(&harness.server);
        let request = client.post_with_key(path, key, body);
        tokio::select! {
            answer = request => panic!("it was answered: {answer:?}"),
            process = harness.held() => assert!(!process.is_empty()),
        }
        assert!(!scratch_is_empty(&harness.server));
        harness.server.kill();
        harness.server.start_again();
        assert!(scratch_is_empty(&harness.server), "what was left is removed");
        let mia = client.at(&harness.server);
        assert_eq!(mia.get("/step-registries").await.ok().data(), json!([made]));
        assert_eq!(steps(&mia, &made).await, ["greet@1"]);
    }
    harness.let_go();
    let mia = mia.clone().at(&harness.server);
    let synced = mia.post_with_key(&at_sync, "k-sync", json!({})).await.ok();
    assert_eq!((synced.data()["commit"].as_str(), synced.header("idempotency-replayed")), (Some(&*second), ""));
    let again = mia.post_with_key(&at_sync, "k-sync", json!({})).await.ok();
    assert_eq!((again.data(), again.header("idempotency-replayed")), (synced.data(), "true"));
    mia.post_with_key("/step-registries", "k-make", more).await.created();
}

#[tokio::test]
async fn a_repository_that_hangs_is_given_up_with_all_that_was_started() {
    if !git_is_usable() {
        return;
    }
    let mut harness = Harness::start("4");
    let mia = harness.server.as_user("mia").await;
    harness.hold("ls-remote");
    let making = async { make(&mia, harness.remote.registry("tools", "main")).await.data() };
    let (registry, process) = tokio::join!(making, harness.held());
    let error = registry["error"].as_str().unwrap();
    assert!(error.starts_with("the remote cannot be reached, or does not answer"), "{error}");
    assert!(harness.server.log().contains("git took longer than 4 seconds"), "the reason is for the operator");
    ended(&process).await;
    harness.let_go();
    // Nothing hangs from here on, so the speed of a busy machine must not matter.
    harness.server.kill();
    harness.server.change_setup(|setup| setup.variable("LOCKKEEPER_GIT_TIMEOUT_SECONDS", "60"));
    harness.server.start_again();
    let mia = mia.at(&harness.server);
    assert_eq!(sync(&mia, &registry).await.ok().data()["added"], json!(["greet@1"]));
    assert!(scratch_is_empty(&harness.server));
}
