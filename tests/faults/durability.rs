//! Acknowledged changes survive, whatever happens to the process, the disk or the files.

mod damage;
mod filled_disk;
mod full_disk;
mod held;
mod large_fetch;
mod ledger;
mod log_file;
mod loud_output;
mod refused;
pub mod small_disk;
mod strace;
mod workers;

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Client, Server, Setup, at};
use held::{Held, make_and_claim, make_and_try_claim};
use ledger::Ledger;
use log_file::LogFile;
use rand::RngExt;
use reqwest::Method;
use serde_json::json;
use strace::{Moment, Trace};
use tokio::sync::watch;
use workers::{Users, Worker, random};

/// The server could not start.
const EXIT_FAILED: i32 = 1;
const EXIT_DISK_FAILED: i32 = 74;

/// More than the number of any one system call at a start.
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
    for call in ["mkdir", "rename", "unlink", "fsync", "fdatasync", "pwrite64", "ftruncate"] {
        // The first start of a directory, a new one each time.
        for place in PLACES {
            let fresh = tempfile::tempdir().unwrap();
            if !strace::cuts_start_short(fresh.path(), call, place) {
                break;
            }
            Setup::default().start_at(fresh.path());
            cuts += 1;
        }
        // A start that finds acknowledged claims in the log, and leftovers of earlier interruptions.
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
    println!("{claims} claims in {groups} syncs: {:.1} claims a sync", claims as f64 / groups as f64);
    assert!(batches as usize + ROUNDS >= claims, "{batches} commits for {claims} claims");
    assert!(groups < batches, "every commit had a sync of its own");
}

/// The numbers of groups and commits in the log. A group is counted just after its requests are answered, so one more
/// commit ensures that all earlier ones are counted; it may be counted itself.
async fn log_counts(client: &Client) -> (u64, u64) {
    client.force_claim("review-1", json!({})).await.created();
    let metrics = client.send(client.request(Method::GET, "/metrics")).await.ok().text;
    let count = |name| metric(&metrics, name);
    (count("lockkeeper_log_groups_total"), count("lockkeeper_log_batches_total"))
}

#[tokio::test]
async fn a_failed_sync_of_the_log_ends_the_server_and_loses_nothing_acknowledged() {
    disk_fails("log", "fdatasync:error=EIO:when=8+", "writing the log").await;
}

#[tokio::test]
async fn a_failed_sync_of_the_database_ends_the_server_and_loses_nothing_acknowledged() {
    disk_fails("sled", "fdatasync:error=EIO:when=3+", "writing the database failed").await;
}

#[tokio::test]
async fn a_log_that_finds_no_room_ends_the_server_and_loses_nothing_acknowledged() {
    disk_fails("log", "pwrite64:error=ENOSPC:when=8+", "writing the log").await;
}

#[tokio::test]
async fn a_database_that_finds_no_room_ends_the_server_and_loses_nothing_acknowledged() {
    disk_fails("sled", "pwrite64:error=ENOSPC:when=2+", "writing the database failed").await;
}

/// Claims until the server ends because its disk fails under the log or the database.
async fn disk_fails(part: &str, fault: &str, sentence: &str) {
    const CLAIMS_MAX: usize = 20_000;
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
    let (file, inject) = (file.display().to_string(), format!("inject={fault}"));
    let options = ["-e", "trace=fdatasync,pwrite64", "-P", &file, "-e", &inject];
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
        assert!(answers < CLAIMS_MAX, "nothing has failed");
    };
    // Seven commits reached the log: three environments and their claims, and a fourth environment.
    assert!(part != "log" || answers == 3, "{answers} claims were answered with success");
    // Not a success: the connection broke, or the answer was that the outcome is unknown.
    if let Ok(answer) = failed {
        assert_eq!(answer.status, 503, "{answer:?}");
    }
    assert_eq!(server.wait().code(), Some(EXIT_DISK_FAILED));
    let said = server.log()[logged_before..].to_owned();
    let plain: Vec<_> = said.lines().filter(|line| line.starts_with("lockkeeper: ")).collect();
    assert_eq!(plain.len(), 1, "{said}");
    assert!(plain[0].contains(sentence) && plain[0].contains("start the server again"), "{said}");
    assert!(!said.contains("panicked"), "{said}");

    server.change_setup(|setup| setup.under(&[]));
    server.start_again();
    held.assert_all_there(&server).await;
    println!("{} claims acknowledged before {fault} in {part}, all there", held.len());
}
/// Runs them all concurrently and waits for all.
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

/// Reports that a test did not run and why, bypassing the capture of its output, which is hidden when it passes.
fn skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    writeln!(std::io::stderr(), "skipped {test}: {why}").ok();
}

/// Repeats the request until `found` accepts the answer. Bounded, so that the test fails if that never happens.
async fn until<T, F: Future<Output = T>>(what: &str, mut ask: impl FnMut() -> F, found: impl Fn(&T) -> bool) -> T {
    const ATTEMPTS: usize = 3000;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 0..ATTEMPTS {
        let answer = ask().await;
        if found(&answer) {
            return answer;
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("{what} did not come");
}

/// The value of a metric without labels, or 0 if it does not exist yet.
fn metric(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.trim().parse::<f64>().unwrap() as u64)
}
