//! `lockkeeper audit verify` finds changes to recorded events made while the server was stopped.

use std::path::Path;
use std::process::Command;

use store::journal::{self, Entry, Head, PAGE_ENTRIES, Page};
use store::{Batch, LoggedStore, Store};

use super::verifying::{printed, verify};
use super::{all_events, cycle, offline};
use crate::support::{Server, Setup, lockkeeper};

const BETA: &str = r#"
organization = { id = "beta" }
members = [{ name = "bea", role = "admin" }]
[[pipelines]]
id = "web"
environments = [{ name = "review-1" }, { name = "review-2" }]
"#;

type Tamper = fn(&LoggedStore, &mut Batch, u64);
type Touched = fn(u64) -> u64;
type Kind = (&'static str, Tamper, Touched, &'static str);

fn page(store: &LoggedStore, organization: &str, number: u64) -> Page {
    Page::decode(&store.get(&journal::page_key(organization, number)).unwrap().unwrap()).unwrap()
}

fn edit(store: &LoggedStore, batch: &mut Batch, number: u64, change: impl FnOnce(&mut Vec<Entry>)) {
    let mut edited = page(store, "acme", number);
    change(&mut edited.entries);
    batch.put(journal::page_key("acme", number), edited.encode());
}

/// Manipulations of pages of 32 events, the last of them with number `last`; with the first affected event, and how it
/// is reported.
fn kinds() -> Vec<Kind> {
    vec![
        (
            "a byte of a body",
            |s, b, _| edit(s, b, 1, |e| *e[3].body.last_mut().unwrap() ^= 1),
            |_| 35,
            "has been changed",
        ),
        (
            "a byte of the last body",
            |s, b, last| edit(s, b, last / PAGE_ENTRIES, |e| e.last_mut().unwrap().body[5] ^= 1),
            |last| last,
            "has been changed",
        ),
        (
            "a byte of a hash",
            |s, b, _| edit(s, b, 1, |e| e[3].hash[0] ^= 1),
            |_| 35,
            "the hash of event 35 has been changed",
        ),
        ("one in the middle removed", |s, b, _| edit(s, b, 1, |e| _ = e.remove(3)), |_| 35, "has been removed"),
        ("the first removed", |s, b, _| edit(s, b, 0, |e| _ = e.remove(0)), |_| 0, "has been removed"),
        (
            "the last removed",
            |s, b, last| edit(s, b, last / PAGE_ENTRIES, |e| _ = e.pop()),
            |last| last,
            "has been removed",
        ),
        ("two swapped", |s, b, _| edit(s, b, 1, |e| e.swap(3, 7)), |_| 35, "moved to the place of event 39"),
        ("one inserted", |s, b, _| edit(s, b, 1, |e| e.insert(3, e[9].clone())), |_| 35, "has been inserted"),
        (
            "a page removed",
            |_, b, _| b.delete(journal::page_key("acme", 1)),
            |_| 32,
            "events 32 to 63 have been removed",
        ),
        (
            "the first page removed",
            |_, b, _| b.delete(journal::page_key("acme", 0)),
            |_| 0,
            "events 0 to 31 have been removed",
        ),
        (
            "the last page removed",
            |_, b, last| b.delete(journal::page_key("acme", last / PAGE_ENTRIES)),
            |last| last / PAGE_ENTRIES * PAGE_ENTRIES,
            "removed",
        ),
        (
            "two pages swapped",
            |s, b, _| {
                b.put(journal::page_key("acme", 0), page(s, "acme", 1).encode());
                b.put(journal::page_key("acme", 1), page(s, "acme", 0).encode());
            },
            |_| 0,
            "replaced by the page that begins with event 32",
        ),
        (
            "one copied from another organization",
            |s, b, _| {
                let foreign = page(s, "beta", 1).entries[3].clone();
                edit(s, b, 1, |e| e[3] = foreign);
            },
            |_| 35,
            "has been changed",
        ),
        (
            "a page copied from another organization",
            |s, b, _| b.put(journal::page_key("acme", 1), page(s, "beta", 1).encode()),
            |_| 32,
            "does not follow",
        ),
        (
            "a record chained on at the end",
            |s, b, last| {
                edit(s, b, last / PAGE_ENTRIES, |e| {
                    let mut more = e[0].clone();
                    (more.sequence, more.hash) =
                        (e.last().unwrap().sequence, journal::chained(&e.last().unwrap().hash, last + 1, &more.body));
                    e.push(more);
                })
            },
            |last| last + 1,
            "outside the stored beginning and end",
        ),
        (
            "the note of the beginning",
            |_, b, _| b.put(b"EF/acme", 32_u64.to_be_bytes()),
            |_| 0,
            "outside the stored beginning and end",
        ),
        (
            "everything removed",
            |_, b, last| (0..=last / PAGE_ENTRIES).for_each(|page| b.delete(journal::page_key("acme", page))),
            |_| 0,
            "removed",
        ),
    ]
}

/// A stopped server with some pages of events in two organizations.
async fn recorded() -> (Server, u64) {
    let acme = include_str!("../../../config/acme.toml");
    let mut server = Setup::default().organization(BETA).organization(acme).start();
    let bea = server.admin().in_organization("beta");
    for _ in 0..40 {
        cycle(&bea, "review-1").await;
    }
    assert!(server.terminate().success());
    server.change_setup(|_| Setup::default().organization(acme).organization(BETA));
    server.start_again();
    for _ in 0..40 {
        cycle(&server.admin(), "review-1").await;
    }
    let last = all_events(&server.admin(), "").await.len() as u64 - 1;
    assert!(last > 2 * PAGE_ENTRIES && !(last + 1).is_multiple_of(PAGE_ENTRIES), "{last}");
    assert!(server.terminate().success());
    (server, last)
}

fn copied(home: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let done = Command::new("cp").arg("-r").arg(home.join("data")).arg(copy.path()).status().unwrap();
    assert!(done.success());
    copy
}

#[tokio::test]
async fn tampering_of_each_kind_is_found() {
    let (server, last) = recorded().await;
    let untouched = copied(server.home());
    assert_eq!(verify(untouched.path(), &[]).status.code(), Some(0));
    for (what, tamper, touched, told) in kinds() {
        let home = copied(server.home());
        let store = offline::open(home.path());
        let mut batch = Batch::default();
        tamper(&store, &mut batch, last);
        store.commit(batch).unwrap();
        store.close();
        drop(store);
        // Repeating the check gives the same result: the evidence stays.
        for _ in 0..2 {
            let found = verify(home.path(), &[]);
            let text = printed(&found);
            assert_eq!(found.status.code(), Some(1), "{what}: {text}");
            let expected = format!("acme: broken at event {}: ", touched(last));
            let line = text.lines().find(|line| line.starts_with("acme: ")).unwrap();
            assert!(line.starts_with(&expected) && line.contains(told), "{what}: {line}");
            assert!(text.lines().any(|line| line.starts_with("beta: ") && line.contains("chain intact")), "{text}");
        }
        let only = verify(home.path(), &["--organization", "beta"]);
        assert_eq!(only.status.code(), Some(0), "{what}");
    }
}

#[tokio::test]
async fn a_server_that_starts_on_what_was_cut_off_says_so_and_the_evidence_stays() {
    let (mut server, last) = recorded().await;
    let store = offline::open(server.home());
    let mut batch = Batch::default();
    edit(&store, &mut batch, last / PAGE_ENTRIES, |entries| _ = entries.pop());
    store.commit(batch).unwrap();
    store.close();
    drop(store);
    server.start_again();
    assert!(server.log().contains("do not end where they should"), "{}", server.log());
    for _ in 0..30 {
        cycle(&server.admin(), "review-2").await;
    }
    assert!(server.terminate().success());
    let found = verify(server.home(), &["--organization", "acme"]);
    assert_eq!(found.status.code(), Some(1));
    assert!(printed(&found).contains(&format!("the journal once ended with {last}:")), "{}", printed(&found));
}

/// Changes one event and recomputes everything that depends on it: pages, hashes, head.
fn rewrite(store: &LoggedStore, batch: &mut Batch, from: u64) {
    let mut head = Head::decode(&store.get(&journal::head_key("acme")).unwrap().unwrap()).unwrap();
    let mut before = None;
    for number in from / PAGE_ENTRIES..head.next.div_ceil(PAGE_ENTRIES) {
        let mut page = page(store, "acme", number);
        page.before = before.unwrap_or(page.before);
        head.hash = page.before;
        for (entry, number) in page.entries.iter_mut().zip(page.first..) {
            if number == from {
                *entry.body.last_mut().unwrap() ^= 1;
            }
            entry.hash = journal::chained(&head.hash, number, &entry.body);
            head.hash = entry.hash;
        }
        before = Some(head.hash);
        batch.put(journal::page_key("acme", number), page.encode());
    }
    batch.put(journal::head_key("acme"), head.encode());
}

#[tokio::test]
async fn who_can_write_the_disk_and_has_no_master_key_cannot_rewrite_the_chain() {
    const KEY: (&str, &str) =
        ("LOCKKEEPER_MASTER_KEY", "5f5e5d5c5b5a595857565554535251504f4e4d4c4b4a49484746454443424140");
    let mut server = Setup::default().variable(KEY.0, KEY.1).start();
    for _ in 0..40 {
        cycle(&server.admin(), "review-1").await;
    }
    assert!(server.terminate().success());
    let home = copied(server.home());
    let store = offline::open(home.path());
    let mut batch = Batch::default();
    rewrite(&store, &mut batch, 50);
    store.commit(batch).unwrap();
    store.close();
    drop(store);
    let verify_with = |home: &Path, key: Option<&str>| {
        let mut command = lockkeeper(&["audit", "verify", "--data-dir"]);
        command.arg(home.join("data")).env("LOCKKEEPER_STORAGE_MIN_FREE_MB", "0");
        command.envs(key.map(|key| (KEY.0, key)));
        let output = command.output().unwrap();
        (output.status.code(), printed(&output))
    };
    let (code, told) = verify_with(server.home(), Some(KEY.1));
    assert!(code == Some(0) && told.contains("acme: seals intact"), "{told}");
    for (key, why) in [(None, "set LOCKKEEPER_MASTER_KEY as for the server"), (Some(&*"1".repeat(64)), "another one")] {
        let (code, told) = verify_with(server.home(), key);
        assert!(code == Some(2) && told.contains("chain intact") && told.contains(why), "{told}");
        assert!(told.contains("acme: seals not checked, so the chain may have been rewritten as a whole"), "{told}");
    }
    let (code, told) = verify_with(home.path(), Some(KEY.1));
    assert!(code == Some(1) && told.contains("do not match their seal: the chain was rewritten here"), "{told}");
    let at: u64 = told.split("broken at event ").nth(1).unwrap().split(':').next().unwrap().parse().unwrap();
    assert!(at <= 50, "{told}");
    // A server started on it reports that, and seals later events; the evidence stays.
    drop(server);
    let mut server = Setup::default().variable(KEY.0, KEY.1).start_at(home.path());
    cycle(&server.admin(), "review-2").await;
    assert!(server.terminate().success());
    assert!(server.log().contains("do not match their seal"), "{}", server.log());
    assert_eq!(verify_with(home.path(), Some(KEY.1)).0, Some(1));
}
