//! Uploads to a real directory and to a real S3 server, and fetching parts from both.

#![allow(clippy::unwrap_used)]

mod moto;
mod outages;
mod peer;
mod uploads;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use zeroize::Zeroizing;

use super::object::Uploaded;
use super::{
    Archive, ArchiveOptions, Credentials, LogStore, S3, S3Settings, Unavailable, UploadControl, UploadProgress, Uploads,
};
use crate::logs::{LogFile, LogId, Logs, Parts, Section, StepLog};
use accounts::secrets::MasterKey;
use cluster::peers::{PeerClient, ViaKey};
use domain::{DeploymentId, DroppedLog, IdSeed, Identifier, LogPart, Timestamp};
use moto::Moto;

const AT: Timestamp = Timestamp::from_millis(1_000);
const PLENTY: u64 = 1 << 30;
const ID: DeploymentId = DeploymentId(IdSeed([7; 12]));

fn acme() -> Identifier {
    Identifier::parse("acme").unwrap()
}

/// A node: its files and its uploads.
struct TestNode {
    _dir: TempDir,
    logs: Logs,
    archive: Archive,
    uploads: Option<watch::Receiver<UploadProgress>>,
}

impl TestNode {
    /// A node that sees no other node.
    fn new(name: &str, store: Option<LogStore>) -> Self {
        Self::among(name, store, |_| None)
    }

    fn among(
        name: &str,
        store: Option<LogStore>,
        urls: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (sender, ended) = mpsc::channel(8);
        let parts = Parts { foreign_bytes_max: PLENTY, ended: store.as_ref().map(|_| sender) };
        let logs = Logs::open_in_parts(dir.path(), PLENTY, parts).unwrap();
        let control = store.clone().map(|store| {
            let (uploads, control) = Uploads::new(logs.clone(), store, ended);
            tokio::spawn(uploads.run());
            control
        });
        let uploads = control.as_ref().map(UploadControl::progress);
        let key = ViaKey::of(&MasterKey::parse(&"1".repeat(64)).unwrap());
        let archive = Archive::new(ArchiveOptions {
            node: name.to_owned(),
            logs: logs.clone(),
            store,
            client: PeerClient::new(name, key, None).unwrap(),
            urls: Box::new(urls),
            uploads: control,
            organizations: 1,
        });
        Self { _dir: dir, logs, archive, uploads }
    }

    fn file(&self) -> LogFile {
        self.logs.file(&acme(), ID, 0)
    }

    /// Writes the output of a whole stage.
    fn write(&self, output: &[u8]) {
        self.write_of(ID, output);
    }

    fn write_of(&self, deployment: DeploymentId, output: &[u8]) {
        self.begin(deployment, output).finish(AT).sync();
    }

    /// Starts a stage that keeps running.
    fn begin(&self, deployment: DeploymentId, output: &[u8]) -> StepLog {
        let section = Section { stage: "build".into(), step: "one".into(), attempt: 1 };
        let mut log = self.logs.append_part(&acme(), deployment, 0).step(section, PLENTY);
        log.write(AT, output);
        log
    }

    async fn until_uploaded(&self) {
        let mut progress = self.uploads.clone().unwrap();
        while !self.logs.pending().is_empty() {
            tokio::time::timeout(Duration::from_millis(50), progress.changed()).await.ok();
        }
    }

    async fn until_failing(&self) {
        self.uploads.clone().unwrap().wait_for(|now| now.fails).await.unwrap();
    }

    async fn text(&self, parts: &[LogPart]) -> Result<String, Unavailable> {
        let log: LogId = self.archive.bring(&acme(), ID, parts).await?;
        let mut reader = self.logs.read(&log, 0);
        let mut text = Vec::new();
        while let Some(line) = reader.next_line().unwrap() {
            text.extend(line.bytes);
            text.extend(line.ends_line.then_some(b'\n'));
        }
        Ok(String::from_utf8(text).unwrap())
    }
}

fn part(node: &str, in_store: bool) -> LogPart {
    LogPart { number: 0, node: Arc::from(node), in_store }
}

/// The tests for every kind of store.
async fn upload_and_fetch(store: LogStore) {
    let (first, second) = (TestNode::new("n1", Some(store.clone())), TestNode::new("n2", Some(store.clone())));
    let parts = [part("n1", true)];
    let gone = second.text(&parts).await.unwrap_err().to_string();
    assert!(gone.contains("the store of logs does not have it yet") && gone.contains("when n1 is back"), "{gone}");
    first.write(b"one\ntwo\n");
    first.until_uploaded().await;
    assert_eq!(second.text(&parts).await.unwrap(), "one\ntwo\n");
    // By range: from several offsets, at the end, and beyond it.
    let whole = first.logs.bytes(&first.file(), 0, 10_000).unwrap().unwrap();
    for (from, max) in [(0, 10_000), (0, 8), (5, 3), (whole.len(), 10), (whole.len() + 5, 10)] {
        let expected = whole.get(from..(from + max).min(whole.len())).unwrap_or_default();
        assert_eq!(store.get(&first.file(), from as u64, max).await.unwrap().unwrap(), expected, "{from} {max}");
    }
    // After the next stage, only the new bytes are fetched.
    first.write(b"three\n");
    first.until_uploaded().await;
    assert_eq!(second.text(&parts).await.unwrap(), "one\ntwo\nthree\n");
    // More than one piece, to a node without a copy.
    let long = format!("{}\n", "x".repeat(5_000)).repeat(500);
    first.write(long.as_bytes());
    first.until_uploaded().await;
    let third = TestNode::new("n3", Some(store.clone()));
    let (a, b) = tokio::join!(third.text(&parts), third.text(&parts));
    assert_eq!(a.unwrap(), format!("one\ntwo\nthree\n{long}"));
    assert_eq!(b.unwrap().len(), long.len() + 14, "two readers at once");
    // The writing node has lost its copy, and fetches it from the store.
    first.logs.sweep(|_| crate::logs::LogOwner::Nobody);
    assert_eq!(first.text(&parts).await.unwrap().len(), long.len() + 14);
    let dropped = DroppedLog { organization: acme(), deployment: ID, parts: parts.to_vec() };
    for _ in 0..2 {
        assert!(first.archive.remove(&dropped).await.unwrap());
        assert_eq!(store.get(&first.file(), 0, 10).await.unwrap(), None);
    }
    assert_eq!(third.text(&parts).await.unwrap().len(), long.len() + 14, "what is here can still be read");
}

#[tokio::test]
async fn logs_outlive_their_node_in_a_shared_directory() {
    let shared = tempfile::tempdir().unwrap();
    upload_and_fetch(LogStore::directory(shared.path(), "n1")).await;
    let left = files_below(shared.path());
    assert!(left.is_empty(), "nothing half-written, nothing removed in part: {left:?}");
}

#[tokio::test]
async fn a_directory_that_is_not_mounted_is_not_made_and_uploads_wait_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("mount");
    let node = TestNode::new("n1", Some(LogStore::directory(&root, "n1")));
    node.write(b"one\n");
    node.until_failing().await;
    assert!(!root.exists());
    assert_eq!(node.logs.pending(), [node.file()]);
    let error =
        TestNode::new("n2", Some(LogStore::directory(&root, "n2"))).text(&[part("n1", true)]).await.unwrap_err();
    assert!(error.to_string().contains("the store of logs does not work"), "{error}");
    std::fs::create_dir(&root).unwrap();
    node.until_uploaded().await;
    assert_eq!(files_below(&root), [root.join("acme").join(ID.to_string()).join("0.log")]);
}

#[tokio::test]
async fn without_a_store_a_log_of_a_node_that_is_gone_is_unavailable() {
    let node = TestNode::new("n2", None);
    let error = node.text(&[part("n1", false)]).await.unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, Unavailable::Node { .. }) && text.contains("n1") && text.contains("cluster.logs"),
        "{text}"
    );
    assert_eq!(node.text(&[part("n2", false)]).await.unwrap(), "", "its own, which was removed");
    assert_eq!(Archive::default().bring(&acme(), ID, &[]).await.unwrap(), LogId::whole(&acme(), ID));
}

#[tokio::test]
async fn what_was_not_uploaded_is_found_at_the_next_start() {
    let (shared, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let open = |ended| Logs::open_in_parts(dir.path(), PLENTY, Parts { foreign_bytes_max: PLENTY, ended }).unwrap();
    let (sender, receiver) = mpsc::channel(1);
    let logs = open(Some(sender));
    // Nothing uploads this log, as if the process had died; the last line is torn.
    logs.append_part(&acme(), ID, 0).remark(AT, "one");
    drop(receiver);
    let (sender, ended) = mpsc::channel(1);
    let again = open(Some(sender));
    let store = LogStore::directory(shared.path(), "n1");
    let (uploads, _) = Uploads::new(again.clone(), store.clone(), ended);
    let running = tokio::spawn(uploads.run());
    while !again.pending().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let file = again.file(&acme(), ID, 0);
    assert_eq!(store.get(&file, 0, 10_000).await.unwrap(), again.bytes(&file, 0, 10_000).unwrap());
    running.abort();
}

#[tokio::test]
async fn logs_outlive_their_node_on_s3() {
    let Some(moto) = Moto::start() else { return };
    upload_and_fetch(moto.store("logs", "a/b", "key")).await;
}

#[tokio::test]
async fn wrong_credentials_and_a_missing_bucket_are_told_by_their_code() {
    let Some(moto) = Moto::start() else { return };
    let file = TestNode::new("n1", None).file();
    let (key, secret) = moto.demand_credentials();
    // The server computes the same signature with other code.
    let right = moto.with_secret("logs", "a", (&key, &secret));
    right.check().await.unwrap();
    let node = TestNode::new("n1", Some(right.clone()));
    node.write(b"one\n");
    node.until_uploaded().await;
    assert!(store_has(&right, &file).await);
    for (store, expected) in [
        (moto.store("logs", "", "wrong"), "the store answered 403 InvalidAccessKeyId: its credentials may not do this"),
        (moto.store("logs", "", &key), "the store answered 403 SignatureDoesNotMatch: its credentials may not do this"),
    ] {
        let error = store.get(&file, 0, 10).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.is_passing), (expected, false));
        assert!(store.check().await.unwrap_err().to_string().contains("403"));
    }
    let nowhere = Moto::start().unwrap();
    let error = nowhere.store("nowhere", "", "key").check().await.unwrap_err().to_string();
    assert_eq!(error, "the store answered 404: there is no such bucket");
}

#[tokio::test]
async fn a_server_that_is_down_or_overloaded_gets_everything_when_it_is_back() {
    let Some(mut moto) = Moto::start() else { return };
    let store = moto.store("logs", "", "key");
    moto.stop();
    let node = TestNode::new("n1", Some(store.clone()));
    node.write(b"one\n");
    node.until_failing().await;
    assert_eq!(node.logs.pending(), [node.file()], "its stage has ended all the same");
    let failing = TestNode::new("n2", Some(store.clone())).text(&[part("n1", true)]).await.unwrap_err();
    let shown = failing.to_string();
    assert!(shown.contains("the store of logs does not work, and n1"), "without its address: {shown}");
    moto.start_again();
    node.until_uploaded().await;
    // A proxy that answers 503 to the first requests, as S3 does when requests come too fast.
    let slow_down = moto.behind_503(2).await;
    let other = TestNode::new("n2", Some(slow_down.store("logs", "", "key")));
    assert_eq!(other.text(&[part("n1", true)]).await.unwrap(), "one\n", "reading tries again");
    let slow_down = moto.behind_503(3).await;
    let other = TestNode::new("n1", Some(slow_down.store("other", "", "key")));
    other.write(b"two\n");
    other.until_uploaded().await;
    assert!(store_has(&moto.store("other", "", "key"), &other.file()).await);
}

async fn store_has(store: &LogStore, file: &LogFile) -> bool {
    store.get(file, 0, 1).await.unwrap().is_some()
}

#[tokio::test]
async fn an_older_upload_never_replaces_a_newer_one() {
    let shared = tempfile::tempdir().unwrap();
    let node = TestNode::new("n1", Some(LogStore::directory(shared.path(), "n1")));
    for number in 0..50 {
        node.write(format!("{number}\n").as_bytes());
    }
    node.until_uploaded().await;
    let stored = LogStore::directory(shared.path(), "n2").get(&node.file(), 0, 1 << 20).await.unwrap();
    assert_eq!(stored, node.logs.bytes(&node.file(), 0, 1 << 20).unwrap());
}

#[tokio::test]
async fn a_log_that_is_removed_while_it_is_uploaded_fails_the_upload_alone() {
    let shared = tempfile::tempdir().unwrap();
    let store = LogStore::directory(shared.path(), "n1");
    let node = TestNode::new("n1", None);
    node.write(b"one\n");
    let settled = node.logs.settled(&node.file()).unwrap().unwrap();
    let uploaded = Uploaded::new(node.logs.clone(), node.file(), settled);
    node.logs.sweep(|_| crate::logs::LogOwner::Nobody);
    assert!(store.put(&node.file(), uploaded).await.unwrap_err().to_string().contains("was removed"));
    assert!(!store_has(&store, &node.file()).await);
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(files_below(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files
}

fn settings(endpoint: &str, (bucket, prefix): (&str, &str), (key_id, secret): (&str, &str)) -> S3Settings {
    S3Settings {
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
        endpoint: Some(endpoint.to_owned()),
        region: "us-east-1".to_owned(),
        credentials: Credentials {
            key_id: key_id.to_owned(),
            secret: Zeroizing::new(secret.to_owned()),
            session_token: None,
        },
    }
}

fn s3(settings: S3Settings) -> LogStore {
    LogStore::s3(S3::new(settings).unwrap())
}
