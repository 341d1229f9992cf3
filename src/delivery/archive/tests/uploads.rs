//! Uploads that always fail among others, the last uploads before a node stops (both in simulated time), and leftovers
//! of killed uploads.

#![allow(clippy::unwrap_used)]

use super::*;

/// More than any pause.
const LONG: Duration = Duration::from_secs(3_600);

fn id(seed: u8) -> DeploymentId {
    DeploymentId(IdSeed([seed; 12]))
}

/// A directory in which no log of these deployments can be stored.
fn directory_without(bad: impl IntoIterator<Item = u8>) -> TempDir {
    let shared = tempfile::tempdir().unwrap();
    let of_organization = shared.path().join("acme");
    std::fs::create_dir(&of_organization).unwrap();
    bad.into_iter().for_each(|seed| std::fs::write(of_organization.join(id(seed).to_string()), "").unwrap());
    shared
}

#[tokio::test(start_paused = true)]
async fn four_uploads_that_always_fail_hold_up_no_others() {
    let shared = directory_without(0..4);
    let store = LogStore::directory(shared.path(), "n1");
    let node = TestNode::new("n1", Some(store.clone()));
    (0..4).for_each(|bad| node.write_of(id(bad), b"bad\n"));
    node.until_failing().await;
    for good in 4..20 {
        node.write_of(id(good), b"good\n");
        let file = node.logs.file(&acme(), id(good), 0);
        let mut progress = node.uploads.clone().unwrap();
        let uploaded = async {
            while node.logs.pending().contains(&file) {
                progress.changed().await.unwrap();
            }
        };
        tokio::time::timeout(LONG, uploaded).await.expect("the others are uploaded");
        assert!(store_has(&store, &file).await);
    }
    assert_eq!(node.logs.pending().len(), 4, "which stay here");
}

#[tokio::test(start_paused = true)]
async fn a_log_whose_stage_has_just_ended_is_uploaded_before_the_node_stops() {
    let shared = directory_without([]);
    let store = LogStore::directory(shared.path(), "n1");
    let node = TestNode::new("n1", Some(store.clone()));
    // The uploader has not run in between.
    node.write(b"one\n");
    node.archive.finish_uploads(LONG).await;
    assert!(store_has(&store, &node.file()).await);
    assert_eq!(node.logs.pending(), []);
}

#[tokio::test(start_paused = true)]
async fn before_a_node_stops_an_upload_that_fails_keeps_no_other_from_its_place() {
    let shared = directory_without(0..3);
    let store = LogStore::directory(shared.path(), "n1");
    let node = TestNode::new("n1", Some(store.clone()));
    (0..3).for_each(|bad| node.write_of(id(bad), b"bad\n"));
    node.until_failing().await;
    // More than fit into the queue: the rest is found by its marks.
    (3..40).for_each(|good| node.write_of(id(good), b"good\n"));
    node.archive.finish_uploads(LONG).await;
    assert_eq!(node.logs.pending(), [0, 1, 2].map(|bad| node.logs.file(&acme(), id(bad), 0)));
    for good in 3..40 {
        assert!(store_has(&store, &node.logs.file(&acme(), id(good), 0)).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_does_not_wait_for_a_store_that_fails() {
    let dir = tempfile::tempdir().unwrap();
    let node = TestNode::new("n1", Some(LogStore::directory(&dir.path().join("not mounted"), "n1")));
    (0..40).for_each(|seed| node.write_of(id(seed), b"one\n"));
    let finished = tokio::time::timeout(LONG, node.archive.finish_uploads(LONG * 2));
    finished.await.expect("it returns when some have failed");
    assert_eq!(node.logs.pending().len(), 40);
}

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
    // Files of this node and of its former name; another part's file stays.
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
    // A directory, which no file can replace.
    std::fs::create_dir_all(dir.join("0.log").join("x")).unwrap();
    let node = TestNode::new("n1", Some(LogStore::directory(shared.path(), "n1")));
    node.write(b"one\n");
    node.until_failing().await;
    assert_eq!(files_below(shared.path()), Vec::<PathBuf>::new());
}
