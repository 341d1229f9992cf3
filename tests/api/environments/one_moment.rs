//! Reads concurrent with deletions and trimming: each answer is a consistent snapshot.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::watch;

use crate::support::{Client, Setup, at};

const READS: usize = 10_000;
const READERS: usize = 8;
/// Sessions kept in the history.
const RETENTION: usize = 16;
/// Sessions of each deleted environment.
const SESSIONS: usize = 3;
/// The minimum number of deleted environments.
const DELETIONS: usize = 100;
/// The number of reads of an environment before it is deleted.
const READS_BEFORE_DELETE: usize = 6;

/// The environment to be deleted, and one of its sessions.
type Doomed = (String, String);

/// The number of reads so far; `ENOUGH` at the end.
type Reads = Arc<watch::Sender<usize>>;

const ENOUGH: usize = usize::MAX / 2;

#[tokio::test]
async fn no_read_is_torn_by_a_deletion_or_by_trimming() {
    let settings = format!("[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\nhistory_retention = {RETENTION}\n");
    let server = Setup::default().settings(&settings).start();
    let admin = server.admin();
    admin.put(&at("trimmed"), json!({})).await.created();
    let reads: Reads = Arc::new(watch::Sender::new(0));
    let first = make_doomed(&admin, 0).await;
    let (name_next, doomed) = watch::channel(first);
    let readers: Vec<_> =
        (0..READERS).map(|reader| tokio::spawn(read(server.admin(), reader, doomed.clone(), reads.clone()))).collect();
    let trimming = tokio::spawn(trim(server.admin(), reads.clone()));
    let mut deletions = 0;
    while deletions < DELETIONS || *reads.borrow() < READS {
        let enough = *reads.borrow() + READS_BEFORE_DELETE;
        reads.subscribe().wait_for(|count| *count >= enough).await.unwrap();
        admin.delete(&at(&doomed.borrow().0.clone())).await.has_status(204);
        deletions += 1;
        name_next.send_replace(make_doomed(&admin, deletions).await);
    }
    let seen = reads.send_replace(ENOUGH);
    for reader in readers {
        reader.await.unwrap();
    }
    let trimmed = trimming.await.unwrap();
    println!("{seen} reads beside {deletions} deletions and {trimmed} sessions");
}

fn is_enough(reads: &Reads) -> bool {
    *reads.borrow() >= ENOUGH
}

async fn make_doomed(admin: &Client, number: usize) -> Doomed {
    let name = format!("doomed-{number}");
    admin.put(&at(&name), json!({})).await.created();
    let mut session = String::new();
    for _ in 0..SESSIONS {
        session = admin.claim(&name, json!({})).await.created().session();
        admin.release(&name, &session).await.ok();
    }
    (name, session)
}

/// Creates sessions, each of which pushes an older one out of the history.
async fn trim(admin: Client, reads: Reads) -> usize {
    let mut sessions = 0;
    while !is_enough(&reads) {
        let session = admin.claim("trimmed", json!({})).await.created().session();
        admin.release("trimmed", &session).await.ok();
        sessions += 1;
    }
    sessions
}

async fn read(client: Client, reader: usize, doomed: watch::Receiver<Doomed>, reads: Reads) {
    let mut turn = reader;
    while !is_enough(&reads) {
        let (name, session) = doomed.borrow().clone();
        match turn % 3 {
            0 => whole_history(&client, "trimmed", 1 + turn % 4, 5).await,
            1 => whole_history(&client, &name, 1, 50).await,
            _ => {
                let read = client.session(&name, &session).await;
                if read.status != 200 {
                    read.refused(404, "environment_not_found");
                }
            }
        }
        turn += 1;
        reads.send_modify(|count| *count += 1);
    }
}

/// A page of a history has as many sessions as its total says, or there is no such environment.
async fn whole_history(client: &Client, name: &str, page: usize, limit: usize) {
    let read = client.get(&format!("{}/history?page={page}&limit={limit}", at(name))).await;
    if read.status != 200 {
        read.refused(404, "environment_not_found");
        return;
    }
    let total = read.json()["pagination"]["total"].as_u64().unwrap() as usize;
    let expected = total.saturating_sub((page - 1) * limit).min(limit);
    assert_eq!(read.data().as_array().unwrap().len(), expected, "page {page} of {name}: {}", read.text);
    assert!(name == "trimmed" || total == SESSIONS, "{}", read.text);
}
