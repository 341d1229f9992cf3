//! A data directory written by an earlier build is opened by this one, with all of its data.

use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Client, Setup, lockkeeper};

/// Written by the first build of format 4 with `older_data/make.py`, and killed.
pub fn format_4() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/older_data/format_4")
}

#[tokio::test]
async fn everything_in_a_data_directory_of_format_4_is_there() {
    let home = tempfile::tempdir().unwrap();
    unpack(&format_4(), home.path());
    let written: Value =
        serde_json::from_str(&std::fs::read_to_string(format_4().join("answers.json")).unwrap()).unwrap();
    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[git]\nallow_file_urls = true\n";
    let organization = std::fs::read_to_string(format_4().join("organization.toml")).unwrap();
    let setup = Setup::default().settings(settings).organization(&organization);
    let mut server = setup.start_at(home.path());
    let admin = server.admin();

    for (path, expected) in written["answers"].as_object().unwrap() {
        let answer = admin.get(path).await.ok();
        let found = if expected.is_string() { Value::from(answer.text) } else { answer.data() };
        assert_eq!(comparable(known_to(expected, found)), comparable(expected.clone()), "GET {path}");
    }
    let laptop = server.with_token(written["token"].as_str().unwrap());
    laptop.get("/pipelines").await.ok();
    the_lease_and_its_answer_are_kept(&admin, &written["kept"]).await;
    secrets_open(&admin).await;
    the_queue_goes_on(&admin, &written).await;
    assert!(server.terminate().success());
    verify_audit(home.path());
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

/// Without texts that are not stored, so that a version may add or reword them, and without the deadline of a queued
/// session, which every poll moves.
pub fn comparable(mut answer: Value) -> Value {
    let items = match &mut answer {
        Value::Array(items) => items.as_mut_slice(),
        one => std::slice::from_mut(one),
    };
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.remove("disabledReason");
        item.remove("warning");
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
    assert_eq!((&beaten["lockStatus"], &beaten["fencingToken"]), (&json!("active"), &json!(1)));
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

/// The holder leaves; the first in the queue gets the lock, with the next fencing token.
pub async fn the_queue_goes_on(admin: &Client, written: &Value) {
    let environment = "/pipelines/web/ephemeral-environments/review-2";
    let first = &written["answers"][&format!("{environment}/queue")][0]["sessionId"];
    let holder = written["kept"]["session"].as_str().unwrap();
    admin.delete(&format!("{environment}/sessions/{holder}")).await.ok();
    let granted = admin.until(environment, |found| found["lock"]["sessionId"] == *first).await;
    assert_eq!(granted["lock"]["fencingToken"], 2);
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
