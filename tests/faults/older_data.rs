//! A data directory and a backup that an earlier build wrote are opened by this one, with everything that was in them.

use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};

use crate::backup::restore_home;
use crate::support::{Client, Server, Setup, lockkeeper};

/// What `lockkeeper restore` skips unless told otherwise.
const FENCING_MARGIN: u64 = 1_000_000_000;

/// The oldest data that is read: a build of November 2026 wrote it with `older_data/make.py`, and was killed.
pub fn format_4() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/older_data/format_4")
}

#[tokio::test]
async fn everything_in_a_data_directory_of_format_4_is_there() {
    let home = tempfile::tempdir().unwrap();
    unpack(&format_4(), home.path());
    everything_is_there(home.path(), 0).await;
}

#[tokio::test]
async fn everything_in_a_backup_of_format_4_is_there() {
    let (home, of) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    unpack(&format_4(), of.path());
    restore_home(&format_4().join("backup"), home.path(), &of.path().join("data"));
    // No backup has these.
    std::fs::remove_dir_all(home.path().join("data/logs")).ok();
    for file in ["data/logs", "answers.json"] {
        std::fs::rename(of.path().join(file), home.path().join(file)).unwrap();
    }
    everything_is_there(home.path(), FENCING_MARGIN).await;
}

/// With so many fencing tokens skipped.
async fn everything_is_there(home: &Path, skipped: u64) {
    let written = written_in(home);
    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[git]\nallow_file_urls = true\n";
    let organization = std::fs::read_to_string(format_4().join("organization.toml")).unwrap();
    let setup = Setup::default().settings(settings).organization(&organization);
    let mut server = setup.start_at(home);
    let admin = server.admin();

    for (path, expected) in written["answers"].as_object().unwrap() {
        let answer = admin.get(path).await.ok();
        let found = if expected.is_string() { Value::from(answer.text) } else { answer.data() };
        assert_eq!(comparable(known_to(expected, found)), comparable(expected.clone()), "GET {path}");
    }
    people_and_jobs_are_known(&server, &written).await;
    the_lease_and_its_answer_are_kept(&admin, &written["kept"]).await;
    secrets_open(&admin).await;
    the_queue_goes_on(&admin, &written, skipped).await;
    assert!(server.terminate().success());
    verify_audit(home);
}

/// Tokens, sign-ins, a password and an invitation work; the first admin's token stays revoked.
async fn people_and_jobs_are_known(server: &Server, written: &Value) {
    let text = |name: &str| written[name].as_str().unwrap();
    server.with_token(text("token")).get("/pipelines").await.ok();
    server.with_token(text("job")).get("/pipelines").await.ok();
    server.with_token(text("revoked")).get("/pipelines").await.refused(401, "invalid_token");
    let anonymous = server.anonymous();
    for (name, cookie) in written["cookies"].as_object().unwrap() {
        let request = anonymous.request(Method::GET, "/api/v1/whoami").header("Sec-Fetch-Site", "same-origin");
        let request = request.header("Cookie", format!("lockkeeper={}", cookie.as_str().unwrap()));
        assert_eq!(anonymous.send(request).await.ok().data()["user"]["name"], *name);
    }
    let own = |path: &str| anonymous.request(Method::POST, path).header("Sec-Fetch-Site", "same-origin");
    let password = json!({ "organization": "acme", "name": "ana", "password": text("password") });
    anonymous.send(own("/auth/sign-in").json(&password)).await.has_status(204);
    let invitation = format!("/auth/invitations/{}", text("invitation"));
    anonymous.send(own(&invitation).json(&json!({ "password": "another horse battery" }))).await.has_status(204);
}

/// Without the fields that the older version did not have: a version may add some.
pub fn known_to(older: &Value, found: Value) -> Value {
    match (older, found) {
        (Value::Object(older), Value::Object(found)) => {
            let known = found.into_iter().filter_map(|(name, value)| Some((older.get(&name)?, name, value)));
            Value::Object(known.map(|(older, name, value)| (name, known_to(older, value))).collect())
        }
        (Value::Array(older), Value::Array(found)) if older.len() == found.len() => {
            older.iter().zip(found).map(|(older, found)| known_to(older, found)).collect()
        }
        (_, found) => found,
    }
}

/// Without texts that are not stored, so that a version may add or reword them, and without times that requests move: the
/// last use of a token, and the deadline of a queued session.
pub fn comparable(mut answer: Value) -> Value {
    let items = match &mut answer {
        Value::Array(items) => items.as_mut_slice(),
        one => std::slice::from_mut(one),
    };
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.remove("disabledReason");
        item.remove("warning");
        item.remove("lastUsedAt");
        if item.get("lockStatus").is_some_and(|status| status == "queued") {
            item.remove("expiresAt");
        }
    }
    answer
}

pub async fn the_lease_and_its_answer_are_kept(admin: &Client, kept: &Value) {
    let (path, session) = (kept["path"].as_str().unwrap(), kept["session"].as_str().unwrap());
    // Byte for byte the same answer as the first time.
    let retry = admin.request(Method::POST, &admin.path(path)).header("Content-Type", "application/json");
    let retry =
        retry.header("Idempotency-Key", kept["key"].as_str().unwrap()).body(kept["body"].as_str().unwrap().to_owned());
    let replayed = admin.send(retry).await.created();
    assert_eq!((replayed.header("idempotency-replayed"), replayed.session().as_str()), ("true", session));
    let beaten = admin.post(&format!("{path}/{session}/heartbeat"), json!({})).await.ok().data();
    assert_eq!((&beaten["lockStatus"], &beaten["fencingToken"]), (&json!("active"), &kept["fencingToken"]));
}

/// The secret of the pipeline, or the organization's if a pipeline has none.
pub async fn secrets_open(admin: &Client) {
    for (pipeline, value) in [("shop", "hush-7f3e9d2c5a1b"), ("web", "hush-2-7f3e9d2c5a1b")] {
        let check = format!("test \"$DATABASE_PASSWORD\" = {value}");
        let stages = json!([{ "name": "check", "steps": [{ "run": ["sh", "-c", check] }] }]);
        admin.put(&format!("/pipelines/{pipeline}"), json!({ "stages": stages })).await.ok();
        let environments = format!("/pipelines/{pipeline}/ephemeral-environments");
        admin.put(&format!("{environments}/fresh"), json!({})).await.created();
        let claimed = admin.post(&format!("{environments}/fresh/sessions"), json!({ "commitId": "c0ffee1" })).await;
        let deployment = claimed.created().data()["deployments"][0]["deploymentId"].as_str().unwrap().to_owned();
        let path = format!("/deployments/{deployment}");
        admin.until(&path, |found| found["status"] == "succeeded").await;
    }
}

/// The holder leaves; the first in the queue gets the lock, with the next fencing token after those skipped.
pub async fn the_queue_goes_on(admin: &Client, written: &Value, skipped: u64) {
    let environment = "/pipelines/web/ephemeral-environments/review-2";
    let first = &written["answers"][&format!("{environment}/queue")][0]["sessionId"];
    let holder = written["kept"]["session"].as_str().unwrap();
    admin.delete(&format!("{environment}/sessions/{holder}")).await.ok();
    let granted = admin.until(environment, |found| found["lock"]["sessionId"] == *first).await;
    let next = written["kept"]["fencingToken"].as_u64().unwrap() + skipped + 1;
    assert_eq!(granted["lock"]["fencingToken"], next);
}

/// The answers of the server that wrote it, by path, and what else the test needs.
pub fn written_in(home: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(home.join("answers.json")).unwrap()).unwrap()
}

pub fn unpack(fixture: &Path, home: &Path) {
    let archive = fixture.join("data.tar.gz");
    let unpacked = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(home).status().unwrap();
    assert!(unpacked.success());
}

pub fn verify_audit(home: &Path) {
    let mut command = lockkeeper(&["audit", "verify", "--data-dir", home.join("data").to_str().unwrap()]);
    command.env("LOCKKEEPER_STORAGE_LOG_SEGMENT_MB", "4").env("LOCKKEEPER_STORAGE_MIN_FREE_MB", "0");
    let output = command.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && printed.contains("acme: ") && printed.contains("chain intact"), "{printed}");
}
