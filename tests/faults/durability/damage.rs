//! Damaged files in the data directory.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::EXIT_FAILED;
use super::held::Held;
use super::log_file::{LogFile, SECTOR};
use crate::support::{Server, Setup, refusal};

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
                // A sector may be incomplete; its end shows that.
                sector[SECTOR / 2..].fill(0);
            }
        }
        log.write(offset, &sectors);
        server.try_start_again().unwrap_or_else(|stderr| panic!("with {what} of a record: {stderr}"));
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
        for part in [file.as_str(), &format!("byte {}", group.offset), "--discard-damaged-log", "backup"] {
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
    // So many that the log no longer contains them all and the database is needed.
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

    let mut damages = vec![("garbage".to_owned(), vec![0x5A; 100_000]), ("empty".to_owned(), Vec::new())];
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

/// Replaces the target.
fn copy_directory(from: &Path, to: &Path) {
    std::fs::remove_dir_all(to).ok();
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// Whether the start was refused, clearly. If it was not, checks that the damage has cost nothing.
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

/// Checks the output of a server that did not start: one line for people, and no panic.
fn assert_one_sentence(said: &str, what: &str) {
    let plain = said.lines().filter(|line| line.starts_with("lockkeeper: "));
    assert_eq!(plain.count(), 1, "{what}: {said}");
    for word in ["panicked", "stack backtrace", "RUST_BACKTRACE"] {
        assert!(!said.contains(word), "{what}: {said}");
    }
}
