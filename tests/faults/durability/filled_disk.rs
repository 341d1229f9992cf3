//! Steps that fill the disk of the data directory.

use serde_json::{Value, json};

use super::full_disk::{readiness, wait_for_reserve};
use super::small_disk::SmallDisk;
use super::until;
use crate::support::tenants::{ACME, BETA};
use crate::support::{Answer, Client, Server, Setup, at};

pub const DISK_MIB: u32 = 256;
/// It continues when there is no space left to write to.
const FILLS: &str = "dd if=/dev/zero of=big bs=1M 2>/dev/null; touch \"$TRACE\"; exec sleep 600";

async fn start(disk: &SmallDisk, runner: &str) -> Server {
    start_running(disk, runner, FILLS).await
}

/// A server whose deployments run this script.
pub async fn start_running(disk: &SmallDisk, runner: &str, script: &str) -> Server {
    let settings = format!("[storage]\nlog_segment_mb = 4\nmin_free_mb = 8\n[runner]\n{runner}\n");
    let server = Setup::default().settings(&settings).start_at(disk.home());
    let stages = json!([{ "name": "fill", "steps": [{ "name": "fill", "run": ["sh", "-c", script] }] }]);
    let variables = json!({ "TRACE": disk.home().join("trace") });
    server.admin().put("/pipelines/web", json!({ "stages": stages, "variables": variables })).await.ok();
    wait_for_reserve(disk, &server).await;
    server
}

/// A deployment that fills the disk, with its session.
pub async fn deploy(client: &Client) -> (String, String) {
    let session = client.claim("review-1", json!({})).await.created().session();
    let deployed = client.deploy("review-1", &session, json!({ "commitId": "c0ffee1" })).await.has_status(202);
    (session, deployed.data()["deploymentId"].as_str().unwrap().to_owned())
}

pub async fn finished(client: &Client, deployment: &str) -> Value {
    let is_finished =
        |found: &Value| ["succeeded", "failed", "cancelled"].iter().any(|status| found["status"] == *status);
    client.until(&format!("/deployments/{deployment}"), is_finished).await
}

/// Checks that it continues without help.
async fn goes_on(disk: &SmallDisk, server: &Server) {
    let work = disk.home().join("data/work");
    let left = || async { std::fs::read_dir(&work).unwrap().count() };
    until("an empty working directory", left, |left| *left == 0).await;
    until_claims_are_taken(server).await;
}

pub async fn until_claims_are_taken(server: &Server) {
    let client = server.admin();
    let claim = || client.claim("review-2", json!({ "ttlSeconds": 600 }));
    let taken = until("a claim that is taken", claim, |answer: &Answer| answer.status == 201).await;
    client.release("review-2", &taken.session()).await.ok();
}

#[tokio::test]
async fn a_step_that_fills_the_disk_is_ended_and_the_others_go_on() {
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let server = start(&disk, "min_free_mb = 64").await;
    let client = server.admin();
    let (session, deployment) = deploy(&client).await;
    let ended = finished(&client, &deployment).await;
    assert_eq!(ended["status"], "failed");
    assert!(ended["error"].as_str().unwrap().contains("(runner.min_free_mb)"), "{ended:#}");
    let log = client.get(&format!("/deployments/{deployment}/logs")).await.ok().text;
    assert!(log.contains("(runner.min_free_mb)"), "{log}");
    goes_on(&disk, &server).await;
    client.release("review-1", &session).await.ok();
}

#[tokio::test]
async fn a_deployment_over_its_limit_is_ended_and_frees_its_space() {
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let server = start(&disk, "max_disk_mb = 16\nmin_free_mb = \"off\"").await;
    let client = server.admin();
    let (_, deployment) = deploy(&client).await;
    let ended = finished(&client, &deployment).await;
    assert_eq!(ended["status"], "failed");
    let error = ended["error"].as_str().unwrap();
    assert!(error.contains("used more than 16 MiB of disk (runner.max_disk_mb)"), "{error}");
    goes_on(&disk, &server).await;
}

#[tokio::test]
async fn on_a_disk_that_a_step_has_filled_cancelling_works_and_a_start_ends_it() {
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let mut server = start(&disk, "min_free_mb = \"off\"\ntermination_grace_seconds = 1").await;
    let trace = disk.home().join("trace");
    for kill in [false, true] {
        let (session, deployment) = deploy(&server.admin()).await;
        until("a full disk", || async { trace.exists() }, |filled| *filled).await;
        until("a store that refuses", || readiness(&server), |answer| answer.status == 503).await;
        std::fs::remove_file(&trace).unwrap();
        if kill {
            server.kill();
            let logged_before = server.log().len();
            server.start_again();
            // The message names what to free.
            let named = format!("largest in it: {}", disk.home().join("data/work").join(&deployment).display());
            assert!(server.log()[logged_before..].contains(&named), "{named}: {}", server.log());
        } else {
            let path = format!("/deployments/{deployment}/stages/fill/cancel");
            server.admin().post(&path, json!({})).await.has_status(202);
        }
        let client = server.admin();
        let expected = if kill { "failed" } else { "cancelled" };
        assert_eq!(finished(&client, &deployment).await["status"], expected);
        client.release("review-1", &session).await.ok();
        goes_on(&disk, &server).await;
        wait_for_reserve(&disk, &server).await;
    }
    assert!(!server.log().contains("backup"), "{}", server.log());
}

/// An ordinary user that this machine does not have.
const ORDINARY: u32 = 54_322;

/// Two organizations on a small disk: one has filled some of it and continues quietly, the other fills it.
struct Neighbours {
    server: Server,
    quiet: Client,
    filling: Client,
    trace: std::path::PathBuf,
}

impl Neighbours {
    async fn start(disk: &SmallDisk, runner: &str, user: Option<u32>) -> Self {
        let settings = format!("[storage]\nlog_segment_mb = 4\nmin_free_mb = 8\n[runner]\n{runner}\n");
        let mut setup = Setup::default().settings(&settings).organization(BETA).organization(ACME);
        if let Some(user) = user {
            disk.belongs_to(user);
            let id = user.to_string();
            setup = setup.under(&["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"]);
        }
        let mut server = setup.start_at(disk.home());
        let made = server.admin().in_organization("beta").post("/tokens", json!({ "name": "test" })).await.created();
        let token = made.data()["token"].as_str().unwrap().to_owned();
        assert!(server.terminate().success());
        server.change_setup(|setup| setup.organizations(&[ACME, BETA]));
        server.start_again();
        wait_for_reserve(disk, &server).await;
        let (quiet, filling) = (server.with_token(&token).in_organization("beta"), server.admin());
        let trace = disk.home().join("data/quiet");
        Self { server, quiet, filling, trace }
    }

    async fn run(&self, client: &Client, script: &str) -> String {
        let stages = json!([{ "name": "run", "steps": [{ "name": "run", "run": ["sh", "-c", script] }] }]);
        let variables = json!({ "TRACE": self.trace, "DATA": self.trace.parent() });
        client.put("/pipelines/web", json!({ "stages": stages, "variables": variables })).await.ok();
        deploy(client).await.1
    }

    /// The step that fills the disk is ended with this reason, and the quiet one continues.
    async fn ends_only(&self, script: &str, reason: &str) {
        let quiet = "dd if=/dev/zero of=own bs=1M count=24 2>/dev/null; touch \"$TRACE\"; exec sleep 600";
        let quiet = self.run(&self.quiet, quiet).await;
        until("a quiet step", || async { self.trace.exists() }, |began| *began).await;
        let filling = self.run(&self.filling, script).await;
        let ended = finished(&self.filling, &filling).await;
        let error = ended["error"].as_str().unwrap_or_default();
        assert!(ended["status"] == "failed" && error.contains(reason), "{ended:#}");
        self.goes_on(&quiet, &filling).await;
    }

    async fn goes_on(&self, quiet: &str, filling: &str) {
        let freed = || async { !self.server.data_dir().join("work").join(filling).exists() };
        until("the removal of its directory", freed, |freed| *freed).await;
        let read = self.quiet.get(&format!("/deployments/{quiet}")).await.ok().data();
        assert_eq!(read["status"], "running", "{read:#}");
    }
}

#[tokio::test]
async fn directories_that_the_server_cannot_read_hide_nothing() {
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let neighbours = Neighbours::start(&disk, "min_free_mb = 64", Some(ORDINARY)).await;
    let script = "mkdir hole && chmod 300 hole && exec dd if=/dev/zero of=hole/big bs=1M 2>/dev/null";
    neighbours.ends_only(script, "a directory that the server cannot read").await;
}

#[tokio::test]
async fn directories_deep_inside_each_other_hide_nothing() {
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let neighbours = Neighbours::start(&disk, "min_free_mb = \"off\"", None).await;
    let script = "deep=d; for level in $(seq 220); do deep=$deep/d; done; mkdir -p $deep && sleep 600";
    neighbours.ends_only(script, "directories inside each other").await;
}

#[tokio::test]
async fn a_file_that_is_removed_and_still_open_hides_nothing() {
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let neighbours = Neighbours::start(&disk, "min_free_mb = 32\nmax_disk_mb = 40", None).await;
    let script = "exec 3>big; rm big; dd if=/dev/zero bs=1M count=48 >&3 2>/dev/null; exec sleep 600";
    neighbours.ends_only(script, "used more than 40 MiB of disk (runner.max_disk_mb)").await;
}

#[tokio::test]
async fn a_place_that_is_not_measured_hides_nobody_when_the_disk_is_nearly_full() {
    let Some(disk) = SmallDisk::on_blocks(DISK_MIB) else { return };
    let neighbours = Neighbours::start(&disk, "min_free_mb = 64", None).await;
    // Its files stay, so that the disk is still low afterwards.
    let script = "dd if=/dev/zero of=\"$DATA/elsewhere\" bs=1M 2>/dev/null; exec sleep 600";
    neighbours.ends_only(script, "(runner.min_free_mb)").await;
    std::fs::remove_file(disk.home().join("data/elsewhere")).unwrap();
}

#[tokio::test]
async fn a_step_that_takes_all_files_of_the_disk_is_ended() {
    let Some(disk) = SmallDisk::with_files(DISK_MIB, 40_000) else { return };
    let neighbours = Neighbours::start(&disk, "min_free_mb = 16", None).await;
    let script = "number=0; while :; do number=$((number + 1)); : > file-$number; done";
    neighbours.ends_only(script, "files (inodes) free (runner.min_free_mb)").await;
}

#[tokio::test]
async fn output_leaves_three_quarters_of_the_disk_to_the_steps_of_others() {
    // A small disk, and output that cannot be encoded text: a build for tests masks slowly, and one organization has a
    // sixteenth of the processors for it.
    let Some(disk) = SmallDisk::mount(DISK_MIB / 2) else { return };
    let neighbours = Neighbours::start(&disk, "min_free_mb = 16\nlog_kb_per_step = 1048576", None).await;
    let quiet = "dd if=/dev/zero of=own bs=1M count=8 2>/dev/null; touch \"$TRACE\"; exec sleep 600";
    let quiet = neighbours.run(&neighbours.quiet, quiet).await;
    until("a quiet step", || async { neighbours.trace.exists() }, |began| *began).await;
    let loud = neighbours.run(&neighbours.filling, "yes $(printf %99s | tr ' ' .) | head -c 48000000").await;
    let ended = finished(&neighbours.filling, &loud).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let length = std::fs::metadata(neighbours.server.data_dir().join(format!("logs/{loud}.log"))).unwrap().len();
    assert!(length < 40 * 1024 * 1024, "{length} bytes of output");
    let read = neighbours.quiet.get(&format!("/deployments/{quiet}")).await.ok().data();
    assert_eq!(read["status"], "running", "{read:#}");
}

#[tokio::test]
async fn a_step_that_fills_the_disk_while_it_is_being_stopped_is_killed() {
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let neighbours = Neighbours::start(&disk, "min_free_mb = 64\ntermination_grace_seconds = 600", None).await;
    let script =
        "trap 'exec dd if=/dev/zero of=big bs=1M 2>/dev/null' TERM; touch \"$TRACE\"; while :; do sleep 0.1; done";
    let deployment = neighbours.run(&neighbours.filling, script).await;
    until("a step", || async { neighbours.trace.exists() }, |began| *began).await;
    let path = format!("/deployments/{deployment}/stages/run/cancel");
    neighbours.filling.post(&path, json!({})).await.has_status(202);
    assert_eq!(finished(&neighbours.filling, &deployment).await["status"], "cancelled");
    let log = neighbours.filling.get(&format!("/deployments/{deployment}/logs")).await.ok().text;
    assert!(log.contains("killed while it was being stopped: it "), "{log}");
}

#[tokio::test]
async fn what_is_kept_of_one_organization_leaves_room_for_the_others() {
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let mut neighbours = Neighbours::start(&disk, "min_free_mb = 32", None).await;
    // Waits for an approval, and writes in parts that are small for the disk.
    let part = json!({ "name": "part", "run": ["sh", "-c", "dd if=/dev/zero of=$LOCKKEEPER_STAGE bs=1M count=40 2>/dev/null"] });
    let stages = json!([
        { "name": "a", "steps": [part] },
        { "name": "b", "steps": [part], "approval": "always" },
    ]);
    neighbours.filling.put("/pipelines/web", json!({ "stages": stages })).await.ok();
    for name in ["review-1", "review-2"] {
        let session = neighbours.filling.claim(name, json!({ "ttlSeconds": 3600 })).await.created().session();
        let deployed =
            neighbours.filling.deploy(name, &session, json!({ "commitId": "c0ffee1" })).await.has_status(202);
        let deployment = deployed.data()["deploymentId"].as_str().unwrap().to_owned();
        let waits = |found: &Value| found["status"] == "awaiting_approval";
        neighbours.filling.until(&format!("/deployments/{deployment}"), waits).await;
    }
    let session = neighbours.filling.claim("review-3", json!({ "ttlSeconds": 3600 })).await.created().session();
    for restarts in [false, true] {
        if restarts {
            neighbours.server.kill();
            neighbours.server.start_again();
            neighbours.quiet = neighbours.quiet.clone().at_address(&neighbours.server.address);
            neighbours.filling = neighbours.filling.clone().at_address(&neighbours.server.address);
        }
        let more = json!({ "name": "more", "run": ["sh", "-c", "dd if=/dev/zero of=own bs=1M count=40 2>/dev/null; sleep 600"] });
        let stages = json!([{ "name": "more", "steps": [more] }]);
        neighbours.filling.put("/pipelines/web", json!({ "stages": stages })).await.ok();
        let deployed = neighbours.filling.deploy("review-3", &session, json!({ "commitId": "c0ffee1" })).await;
        let deployment = deployed.has_status(202).data()["deploymentId"].as_str().unwrap().to_owned();
        let ended = finished(&neighbours.filling, &deployment).await;
        assert!(ended["error"].as_str().unwrap().contains("half of what the disk has for steps"), "{ended:#}");
        let other = neighbours.run(&neighbours.quiet, "dd if=/dev/zero of=own bs=1M count=24").await;
        assert_eq!(finished(&neighbours.quiet, &other).await["status"], "succeeded");
        neighbours.quiet.delete(&format!("{}/lock", at("review-1"))).await.ok();
    }
}

#[tokio::test]
async fn on_a_disk_without_files_left_ends_and_a_start_work() {
    let Some(disk) = SmallDisk::with_files(DISK_MIB, 3_000) else { return };
    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 8\n";
    let mut server = Setup::default().settings(settings).start_at(disk.home());
    for name in ["first", "second"] {
        server.admin().put(&at(name), json!({})).await.created();
    }
    let first = server.admin().claim("first", json!({ "ttlSeconds": 600 })).await.created().session();
    let second = server.admin().claim("second", json!({ "ttlSeconds": 600 })).await.created().session();
    wait_for_reserve(&disk, &server).await;
    disk.fill_files();
    until("a full disk", || readiness(&server), |answer| answer.status == 503).await;
    server.admin().release("first", &first).await.ok();
    server.kill();
    disk.fill_files();
    server.start_again();
    server.admin().claim("first", json!({})).await.refused(503, "storage_full");
    server.admin().release("second", &second).await.ok();
    disk.remove_files();
    let client = server.admin();
    let claim = || client.claim("first", json!({}));
    until("a claim that is taken", claim, |answer: &Answer| answer.status == 201).await;
}

#[tokio::test]
async fn what_could_not_be_tried_at_the_start_never_lowers_the_isolation_of_steps() {
    if !rustix::process::getuid().is_root() {
        return super::skipped("the modes of isolation differ for other users");
    }
    for mode in ["best", "strict"] {
        let home = tempfile::tempdir().unwrap();
        let settings = format!("[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[runner]\nisolation = {mode:?}\n");
        let setup = Setup::default().without_variable("LOCKKEEPER_RUNNER_ISOLATION").settings(&settings);
        let mut server = setup.start_at(home.path());
        assert!(server.terminate().success());
        // Blocks the directory that the probe needs, like a full disk.
        let in_the_way = home.path().join("data/work/probe");
        std::fs::create_dir_all(in_the_way.parent().unwrap()).unwrap();
        std::fs::write(&in_the_way, "").unwrap();
        server.start_again();
        let line = server.greeting.lines().find(|line| line.starts_with("Isolation:")).unwrap();
        assert!(line.contains(&format!("{mode}: not tried yet, and no step runs until it is: ")), "{line}");
        let client = server.admin();
        let script = "cat \"$DATA/master.key\" && echo open || echo closed";
        let stages = json!([{ "name": "run", "steps": [{ "name": "run", "run": ["sh", "-c", script] }] }]);
        let variables = json!({ "DATA": home.path().join("data") });
        client.put("/pipelines/web", json!({ "stages": stages, "variables": variables })).await.ok();
        let session = client.claim("review-1", json!({ "ttlSeconds": 600 })).await.created().session();
        let run = || async {
            let deployed = client.deploy("review-1", &session, json!({ "commitId": "c0ffee1" })).await.has_status(202);
            let deployment = deployed.data()["deploymentId"].as_str().unwrap().to_owned();
            (finished(&client, &deployment).await, deployment)
        };
        let refused = run().await.0;
        assert!(refused["status"] == "failed", "{refused:#}");
        assert!(refused["error"].as_str().unwrap().contains("could not be tried yet"), "{refused:#}");
        std::fs::remove_file(&in_the_way).unwrap();
        let (_, deployment) = until("a step that runs", run, |(ended, _)| ended["status"] == "succeeded").await;
        let log = client.get(&format!("/deployments/{deployment}/logs")).await.ok().text;
        assert!(log.contains("closed") && !log.contains("open\n"), "{mode}: {log}");
    }
}
