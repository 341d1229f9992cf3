//! What was acknowledged is there, whatever happens to the process, the disk or the files.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod durability_support;
mod support;

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use durability_support::held::{Held, make_and_claim, make_and_try_claim};
use durability_support::ledger::Ledger;
use durability_support::log_file::{LogFile, SECTOR};
use durability_support::small_disk::SmallDisk;
use durability_support::strace::{self, Moment, Trace};
use durability_support::workers::{Users, Worker, random};
use durability_support::{metric, until};
use rand::RngExt;
use reqwest::Method;
use serde_json::json;
use support::{Answer, Client, Server, Setup, at, refusal};
use tokio::sync::watch;

const EXIT_FAILED: i32 = 1;
const EXIT_DISK_FAILED: i32 = 74;
/// More than a start makes of any one system call.
const PLACES: std::ops::Range<u32> = 1..60;

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed_again_and_again() {
    const ENVIRONMENTS: usize = 8;
    const WORKERS: u64 = 16;
    let kills = from_variable("LOCKKEEPER_TEST_KILLS").unwrap_or(25);
    let seed = from_variable("LOCKKEEPER_TEST_SEED").unwrap_or_else(rand::random);
    println!("LOCKKEEPER_TEST_KILLS={kills} LOCKKEEPER_TEST_SEED={seed}");
    let mut luck = random(seed);

    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\nhistory_retention = 1000000\n";
    let mut server = Setup::default().settings(settings).start();
    let users = Users::make(&server).await;
    for environment in 0..ENVIRONMENTS {
        let path = at(&Ledger::name(environment));
        server.admin().put(&path, json!({})).await.created();
    }
    let ledger = Arc::new(Mutex::new(Ledger::new(ENVIRONMENTS)));
    for _ in 0..kills {
        let (acknowledged, mut watched) = watch::channel(0);
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| Worker {
                clients: users.clients(&server),
                ledger: ledger.clone(),
                environments: ENVIRONMENTS,
                random: random(luck.random()),
                acknowledged: acknowledged.clone(),
            })
            .map(|worker| tokio::spawn(worker.run()))
            .collect();
        let enough = luck.random_range(1..400);
        watched.wait_for(|count| *count >= enough).await.unwrap();
        server.kill();
        for worker in workers {
            worker.await.unwrap();
        }
        server.start_again();
        let mut known = std::mem::replace(&mut *ledger.lock().unwrap(), Ledger::new(0));
        known.compare(&server.admin()).await;
        *ledger.lock().unwrap() = known;
    }
    let mut known = std::mem::replace(&mut *ledger.lock().unwrap(), Ledger::new(0));
    known.compare_everything(&server.admin()).await;
    println!("{kills} kills, {} acknowledged effects, all there", known.acknowledged);
}

#[tokio::test]
async fn a_start_cut_short_anywhere_is_taken_up_by_the_next() {
    if !strace::is_usable() {
        return;
    }
    let mut cuts = 0;
    let home = tempfile::tempdir().unwrap();
    let mut server = Setup::default().start_at(home.path());
    let mut held = Held::default();
    for number in 0..20 {
        held.claim_new(&server.admin(), &format!("held-{number}")).await;
    }
    for call in [
        "mkdir",
        "rename",
        "unlink",
        "fsync",
        "fdatasync",
        "pwrite64",
        "ftruncate",
    ] {
        // The first start of a directory, each time a new one.
        for place in PLACES {
            let fresh = tempfile::tempdir().unwrap();
            if !strace::cuts_start_short(fresh.path(), call, place) {
                break;
            }
            Setup::default().start_at(fresh.path());
            cuts += 1;
        }
        // A start that finds acknowledged claims in the log and what earlier cuts left.
        held.claim_new(&server.admin(), &format!("before-{call}")).await;
        server.kill();
        for place in PLACES {
            if !strace::cuts_start_short(home.path(), call, place) {
                break;
            }
            cuts += 1;
        }
        server.start_again();
        held.assert_all_there(&server).await;
    }
    println!("{cuts} starts cut short");
    assert!(cuts > 0);
}

#[tokio::test]
async fn a_claim_is_answered_only_after_a_sync_that_covers_it() {
    const CLAIMS: usize = 10;
    if !strace::is_usable() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let output = home.path().join("trace");
    let calls = "trace=fdatasync,fsync,pwrite64,write,sendto,writev,sendmsg,recvfrom,read";
    let mut server = strace::under(Setup::default(), &output, &["-e", calls]).start_at(home.path());
    let client = server.admin();
    for number in 0..CLAIMS {
        make_and_claim(&client, &format!("watched-{number}.")).await.created();
    }
    let pid = server.pid();
    server.kill();
    let trace = Trace::of(pid, output).await;

    const LOG: &str = "/data/log/";
    const SEND: [&str; 4] = ["sendto", "sendmsg", "write", "writev"];
    for number in 0..CLAIMS {
        let name = format!("watched-{number}.");
        let path = format!("{name}/sessions");
        let asked = trace.find(0, &["recvfrom", "read"], false, &["POST /", &path]).unwrap();
        let answered = trace.find(asked, &SEND, true, &["201 Created", &path]).unwrap();
        let written = trace.find(asked, &["pwrite64"], false, &[LOG, &name]).unwrap();
        let syncing = trace.find(written, &["fdatasync"], true, &[LOG]).unwrap();
        let synced = trace.find(syncing, &["fdatasync"], false, &[LOG]).unwrap();
        assert_eq!(trace.steps[synced].moment, Moment::Returned("0".to_owned()));
        assert!(
            asked < written && written < syncing && synced < answered,
            "{name} was answered at step {answered}: asked {asked}, written {written}, synced {syncing} to {synced}"
        );
    }
    println!("{CLAIMS} claims, each written and synced before its answer was sent");
}

#[tokio::test]
async fn sixty_four_concurrent_claims_share_few_syncs() {
    const CLIENTS: usize = 64;
    const ROUNDS: usize = 10;
    let server = Server::start();
    let client = server.admin();
    let names: Vec<_> = (0..CLIENTS).map(|number| format!("shared-{number}")).collect();
    for name in &names {
        client.put(&at(name), json!({})).await.created();
    }
    let (mut claims, mut groups, mut batches) = (0, 0, 0);
    for _ in 0..ROUNDS {
        let (groups_before, batches_before) = log_counts(&client).await;
        let sessions = at_once(names.iter().map(|name| {
            let (client, name) = (client.clone(), name.clone());
            async move { (client.claim(&name, json!({})).await.created().session(), name) }
        }))
        .await;
        let (groups_after, batches_after) = log_counts(&client).await;
        claims += sessions.len();
        groups += groups_after - groups_before;
        batches += batches_after - batches_before;
        at_once(sessions.into_iter().map(|(session, name)| {
            let client = client.clone();
            async move { client.release(&name, &session).await.ok() }
        }))
        .await;
    }
    println!(
        "{claims} claims in {groups} syncs: {:.1} claims a sync",
        claims as f64 / groups as f64
    );
    assert!(batches as usize >= claims, "{batches} commits for {claims} claims");
    assert!(groups < batches, "every commit had a sync of its own");
}

async fn log_counts(client: &Client) -> (u64, u64) {
    let metrics = client.send(client.request(Method::GET, "/metrics")).await.ok().text;
    let count = |name| metric(&metrics, name);
    (
        count("lockkeeper_log_groups_total"),
        count("lockkeeper_log_batches_total"),
    )
}

#[tokio::test]
async fn a_failed_sync_of_the_log_ends_the_server_and_loses_nothing_acknowledged() {
    fails_to_sync("log", "writing the log").await;
}

#[tokio::test]
async fn a_failed_sync_of_the_database_ends_the_server_and_loses_nothing_acknowledged() {
    fails_to_sync("sled", "writing the database failed").await;
}

/// Claims against a disk that fails under the log or the database until the server ends.
async fn fails_to_sync(part: &str, sentence: &str) {
    const CLAIMS_MAX: usize = 2000;
    if !strace::is_usable() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let mut server = Setup::default().start_at(home.path());
    let mut held = Held::default();
    held.claim_new(&server.admin(), "before").await;
    let file = match part {
        "log" => LogFile::last(&server.data_dir()).path,
        _ => server.data_dir().join("sled/db"),
    };
    server.terminate();
    let logged_before = server.log().len();
    let (file, fail) = (file.display().to_string(), "inject=fdatasync:error=EIO:when=7+");
    let options = ["-e", "trace=fdatasync", "-P", &file, "-e", fail];
    server.change_setup(|setup| strace::under(setup, &home.path().join("trace"), &options));
    server.start_again();

    let client = server.admin();
    let mut answers = 0;
    let failed = loop {
        let name = format!("held-{answers}");
        match make_and_try_claim(&client, &name).await {
            Ok(answer) if answer.status == 201 => held.note(&name, &answer),
            other => break other,
        }
        answers += 1;
        assert!(answers < CLAIMS_MAX, "no sync has failed");
    };
    // Not a success: the connection broke, or it was told that nothing is known.
    if let Ok(answer) = failed {
        assert_eq!(answer.status, 503, "{answer:?}");
    }
    assert_eq!(server.wait().code(), Some(EXIT_DISK_FAILED));
    let said = server.log()[logged_before..].to_owned();
    let plain: Vec<_> = said.lines().filter(|line| line.starts_with("lockkeeper: ")).collect();
    assert_eq!(plain.len(), 1, "{said}");
    assert!(
        plain[0].contains(sentence) && plain[0].contains("start the server again"),
        "{said}"
    );
    assert!(!said.contains("panicked"), "{said}");

    server.change_setup(|setup| setup.under(&[]));
    server.start_again();
    held.assert_all_there(&server).await;
    println!("{} claims acknowledged before the {part} failed, all there", held.len());
}

#[tokio::test]
async fn a_full_disk_refuses_writes_serves_reads_and_recovers_without_a_restart() {
    const MIB: u64 = 1024 * 1024;
    let Some(disk) = SmallDisk::mount(48) else { return };
    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 8\n";
    let mut server = Setup::default().settings(settings).start_at(disk.home());
    let mut held = Held::default();
    for number in 0..20 {
        held.claim_new(&server.admin(), &format!("early-{number}")).await;
    }
    server.admin().put(&at("wanted"), json!({})).await.created();

    disk.fill(3 * MIB);
    until("a full disk", || readiness(&server), |answer| answer.status == 503).await;
    assert_refuses_writes(&server).await;
    held.assert_all_there(&server).await;

    // Also a server that starts on a full disk serves reads.
    server.kill();
    server.start_again();
    held.assert_all_there(&server).await;
    assert_refuses_writes(&server).await;

    disk.make_room();
    let client = server.admin();
    let claim = || client.claim("wanted", json!({}));
    let taken = until("a claim that is taken", claim, |answer| answer.status != 503).await;
    held.note("wanted", &taken.created());
    assert_eq!(readiness(&server).await.status, 200);
    server.kill();
    server.start_again();
    held.assert_all_there(&server).await;
}

async fn readiness(server: &Server) -> Answer {
    let client = server.anonymous();
    client.send(client.request(Method::GET, "/readyz")).await
}

async fn assert_refuses_writes(server: &Server) {
    let client = server.admin();
    for refused in [
        client.claim("wanted", json!({ "commitId": "c0ffee1" })).await,
        client.force_claim("early-0", json!({})).await,
        client.put(&at("another"), json!({})).await,
        client.post("/tokens", json!({ "name": "test", "user": "ana" })).await,
        readiness(server).await,
    ] {
        assert_eq!(refused.problem(), (503, "storage_full".to_owned()));
        assert!(refused.header("retry-after").parse::<u64>().unwrap() > 0);
    }
    let wanted = client.environment("wanted").await.ok().data();
    assert_eq!(wanted["lockStatus"], "unlocked");
    assert_eq!(client.environment("another").await.status, 404);
}

#[tokio::test]
async fn a_disk_without_a_byte_left_loses_nothing_acknowledged() {
    const CLAIMS_MAX: usize = 20_000;
    let Some(disk) = SmallDisk::mount(48) else { return };
    let mut server = Setup::default().start_at(disk.home());
    let mut held = Held::default();
    held.claim_new(&server.admin(), "early").await;
    let logged_before = server.log().len();
    disk.fill(0);

    // Until it refuses or is gone: the log has room for a while, the database may not.
    let client = server.admin();
    let mut stopped = None;
    for number in 0..CLAIMS_MAX {
        let name = format!("held-{number}");
        match make_and_try_claim(&client, &name).await {
            Ok(answer) if answer.status == 201 => held.note(&name, &answer),
            other => {
                stopped = Some(other);
                break;
            }
        }
    }
    match stopped {
        Some(Ok(refused)) => {
            println!("after {} claims: {}", held.len(), refused.problem().1);
            assert_eq!(refused.status, 503, "{refused:?}");
            server.kill();
        }
        Some(Err(_)) => {
            println!("after {} claims it ended", held.len());
            assert_eq!(server.wait().code(), Some(EXIT_DISK_FAILED), "{}", server.log());
            let said = server.log()[logged_before..].to_owned();
            let plain = said.lines().filter(|line| line.starts_with("lockkeeper: "));
            assert_eq!(plain.count(), 1, "{said}");
            assert!(!said.contains("panicked"), "{said}");
        }
        None => panic!("{CLAIMS_MAX} claims found room on a full disk"),
    }
    disk.make_room();
    server.start_again();
    held.assert_all_there(&server).await;
    held.claim_new(&server.admin(), "late").await;
}

#[tokio::test]
async fn a_server_whose_own_log_has_no_room_left_serves_all_the_same() {
    let wrapper = ["sh", "-c", "exec \"$@\" 2>/dev/full", "sh"];
    let mut server = Setup::default().under(&wrapper).start();
    let mut held = Held::default();
    held.claim_new(&server.admin(), "held").await;
    // What cannot be said is not what decides how it ends.
    assert_eq!(refusal(&Setup::default().under(&wrapper), server.home()).0, EXIT_FAILED);
    assert_eq!(server.terminate().code(), Some(0));
    server.start_again();
    held.assert_all_there(&server).await;
}

#[tokio::test]
async fn a_torn_end_of_the_log_is_cut_and_nothing_acknowledged_with_it() {
    type Kept = fn(sector: usize, of: usize) -> bool;
    let tears: [(&str, Kept); 8] = [
        ("nothing after its first sector", |sector, _| sector == 0),
        ("its first half", |sector, of| sector < of / 2),
        ("its second half", |sector, of| sector >= of / 2),
        ("all but its first sector", |sector, _| sector > 0),
        ("all but its last sector", |sector, of| sector + 1 < of),
        ("only its last sector", |sector, of| sector + 1 == of),
        ("every other sector", |sector, _| sector % 2 == 0),
        ("the others", |sector, _| sector % 2 == 1),
    ];
    let mut server = Server::start();
    let mut held = Held::default();
    for (place, (what, kept)) in tears.into_iter().enumerate() {
        held.claim_new(&server.admin(), &format!("held-{place}")).await;
        server.kill();
        let log = LogFile::last(&server.data_dir());
        let (offset, mut sectors) = log.next_group(&[0x5A; 20_000]);
        let of = sectors.len() / SECTOR;
        for (number, sector) in sectors.chunks_mut(SECTOR).enumerate() {
            if !kept(number, of) {
                // Not even all of a sector need have arrived; its end is what tells.
                sector[SECTOR / 2..].fill(0);
            }
        }
        log.write(offset, &sectors);
        server
            .try_start_again()
            .unwrap_or_else(|stderr| panic!("with {what} of a record: {stderr}"));
        held.assert_all_there(&server).await;
    }
    assert_eq!(server.log().matches("cut an unfinished record").count(), tears.len());
}

#[tokio::test]
async fn a_flipped_bit_in_the_log_stops_the_start_until_it_is_discarded() {
    const HELD: usize = 10;
    const DAMAGED: usize = 6;
    let mut server = Server::start();
    let mut held = Held::default();
    for number in 0..HELD {
        held.claim_new(&server.admin(), &format!("held-{number}.")).await;
    }
    server.kill();
    let log = LogFile::last(&server.data_dir());
    let group = log.group_with(&format!("held-{DAMAGED}."));
    let file = log.path.display().to_string();
    for (what, place) in [
        ("magic", 0),
        ("length", 5),
        ("sequence", 8),
        ("count", 16),
        ("checksum of the payload", 20),
        ("checksum of the header", 24),
        ("payload", 60),
        ("padding", SECTOR * 3),
        ("mark of a sector", SECTOR - 1),
        ("mark of the last sector", group.extent - 1),
    ] {
        log.flip(group.offset + place);
        let said = server.try_start_again().expect_err(what);
        assert_one_sentence(&said, what);
        for part in [
            file.as_str(),
            &format!("byte {}", group.offset),
            "--discard-damaged-log",
            "backup",
        ] {
            assert!(said.contains(part), "{what}: no {part} in {said}");
        }
        log.mend(group.offset + place);
    }
    log.flip(log.bytes.len() - 1);
    assert_one_sentence(&server.try_start_again().expect_err("end"), "end");
    log.mend(log.bytes.len() - 1);
    server.start_again();
    held.assert_all_there(&server).await;
    server.kill();

    log.flip(group.offset + 60);
    assert_eq!(refusal(&Setup::default(), server.home()).0, EXIT_FAILED);
    server.change_setup(|setup| setup.argument("--discard-damaged-log"));
    server.start_again();
    held.assert_first_there(&server, DAMAGED).await;
    let names = std::fs::read_dir(server.data_dir().join("log")).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.any(|name| name.starts_with("damaged-")));

    let mut after = Held::default();
    after.claim_new(&server.admin(), "after").await;
    server.kill();
    server.change_setup(|_| Setup::default());
    server.start_again();
    after.assert_all_there(&server).await;
    held.assert_first_there(&server, DAMAGED).await;
}

#[tokio::test]
async fn a_torn_snapshot_of_the_database_is_no_obstacle() {
    let mut server = Server::start();
    let mut held = Held::default();
    held.claim_new(&server.admin(), "held").await;
    server.terminate();
    let torn = server.data_dir().join("sled/snap.00000000000FFFFF.generating");
    for content in [&b""[..], &[0x5A; 300], &[0; 4096]] {
        std::fs::write(&torn, content).unwrap();
        server.start_again();
        assert!(!torn.exists());
        held.assert_all_there(&server).await;
        server.kill();
    }
}

#[tokio::test]
async fn a_damaged_database_never_passes_for_a_whole_one() {
    // So many that the log no longer has them all and the database is needed.
    const OTHERS: usize = 1100;
    const PLACES: usize = 6;
    let home = tempfile::tempdir().unwrap();
    let mut server = Setup::default().start_at(home.path());
    let mut held = Held::default();
    for number in 0..20 {
        held.claim_new(&server.admin(), &format!("held-{number}")).await;
    }
    let client = server.admin();
    for _ in 0..OTHERS {
        client.force_claim("review-1", json!({})).await.created();
    }
    server.terminate();
    let sound = home.path().join("sound");
    std::fs::rename(server.data_dir(), &sound).unwrap();
    let database = std::fs::read(sound.join("sled/db")).unwrap();
    let used = database.iter().rposition(|byte| *byte != 0).unwrap();

    let mut damages = vec![
        ("garbage".to_owned(), vec![0x5A; 100_000]),
        ("empty".to_owned(), Vec::new()),
    ];
    for place in (0..PLACES).map(|place| used * place / PLACES + 100) {
        damages.push((format!("cut at {place}"), database[..place].to_vec()));
        let mut flipped = database.clone();
        flipped[place] ^= 0x10;
        damages.push((format!("a bit flipped at {place}"), flipped));
        let mut missing = database.clone();
        missing[place..place + SECTOR].fill(0);
        damages.push((format!("a sector missing at {place}"), missing));
    }
    let mut refused = 0;
    for (what, content) in damages {
        copy_directory(&sound, &server.data_dir());
        std::fs::write(server.data_dir().join("sled/db"), content).unwrap();
        refused += usize::from(refuses_or_has_all(&mut server, &held, &what).await);
    }
    println!("{refused} damages stopped the start, the others cost nothing");
    assert!(refused > 0);
    copy_directory(&sound, &server.data_dir());
    server.start_again();
    held.assert_all_there(&server).await;
}

/// In place of what was there.
fn copy_directory(from: &Path, to: &Path) {
    std::fs::remove_dir_all(to).ok();
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// Whether the start was refused, clearly. If it was not, the damage has not cost anything.
async fn refuses_or_has_all(server: &mut Server, held: &Held, what: &str) -> bool {
    let before = server.log().len();
    if let Err(said) = server.try_start_again() {
        assert_one_sentence(&said, what);
        assert!(said.contains("backup"), "{what}: {said}");
        return true;
    }
    held.assert_all_there(server).await;
    server.admin().force_claim("review-1", json!({})).await.created();
    server.kill();
    assert!(!server.log()[before..].contains("panicked"), "{what}");
    false
}

/// What a server that did not start said: one line for people, and no panic.
fn assert_one_sentence(said: &str, what: &str) {
    let plain = said.lines().filter(|line| line.starts_with("lockkeeper: "));
    assert_eq!(plain.count(), 1, "{what}: {said}");
    for word in ["panicked", "stack backtrace", "RUST_BACKTRACE"] {
        assert!(!said.contains(word), "{what}: {said}");
    }
}

/// Runs them all at once and waits for all.
async fn at_once<T: Send + 'static>(tasks: impl Iterator<Item = impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let tasks: Vec<_> = tasks.map(tokio::spawn).collect();
    let mut results = Vec::with_capacity(tasks.len());
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

fn from_variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}
