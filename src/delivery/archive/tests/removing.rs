//! Leftovers of uploads to a directory that were killed.

#![allow(clippy::unwrap_used)]

use super::*;

#[tokio::test]
async fn leftovers_of_killed_uploads_go_with_the_next_upload_and_with_the_log() {
    let shared = tempfile::tempdir().unwrap();
    let dir = shared.path().join("acme").join(ID.to_string());
    std::fs::create_dir_all(&dir).unwrap();
    let leave = |names: &[&str]| names.iter().for_each(|name| std::fs::write(dir.join(name), "half").unwrap());
    let left = || {
        let mut files = files_below(shared.path());
        files.sort();
        files
    };
    let node = TestNode::new("n1", Some(LogStore::directory(shared.path(), "n1")));
    // Of this node and of one with its former name; another part has its own.
    leave(&[".0.log.n1", ".0.log.n0", ".10.log.n1"]);
    node.write(b"one\n");
    node.until_uploaded().await;
    assert_eq!(left(), [dir.join(".10.log.n1"), dir.join("0.log")]);
    leave(&[".0.log.n0"]);
    let parts = [0, 10].map(|number| LogPart { number, ..part("n1", true) }).to_vec();
    let dropped = DroppedLog { organization: acme(), deployment: ID, parts };
    assert!(node.archive.remove(&dropped).await.unwrap());
    assert_eq!((left(), dir.exists()), (vec![], false));
}

#[tokio::test]
async fn an_upload_that_fails_leaves_nothing() {
    let shared = tempfile::tempdir().unwrap();
    let dir = shared.path().join("acme").join(ID.to_string());
    // No file can replace it.
    std::fs::create_dir_all(dir.join("0.log").join("x")).unwrap();
    let node = TestNode::new("n1", Some(LogStore::directory(shared.path(), "n1")));
    node.write(b"one\n");
    node.until_failing().await;
    assert_eq!(files_below(shared.path()), Vec::<PathBuf>::new());
}
