#![allow(clippy::unwrap_used)]

use std::fs::OpenOptions;
use std::io::Write;

use proptest::prelude::*;

use super::*;
use domain::{IdSeed, Timestamp};

const AT: Timestamp = Timestamp::from_millis(1_000);
const PLENTY: u64 = 1 << 20;

fn acme() -> Identifier {
    Identifier::parse("acme").unwrap()
}

fn beta() -> Identifier {
    Identifier::parse("beta").unwrap()
}

fn id(number: u8) -> DeploymentId {
    DeploymentId(IdSeed([number; 12]))
}

fn section(step: &str) -> Section {
    Section { stage: Arc::from("build"), step: Arc::from(step), attempt: 1 }
}

fn logs(max_total_bytes: u64) -> (tempfile::TempDir, Logs) {
    let dir = tempfile::tempdir().unwrap();
    let logs = Logs::open(&dir.path().join("logs"), max_total_bytes).unwrap();
    (dir, logs)
}

fn file(number: u8) -> LogFile {
    LogFile { deployment: id(number), number: 0, organization: None }
}

fn read(logs: &Logs, number: u8, from_line: u64) -> LogReader {
    logs.read(&LogId::whole(&acme(), id(number)), from_line)
}

fn lines(logs: &Logs, from: u64) -> Vec<Line> {
    let mut reader = read(logs, 1, from);
    std::iter::from_fn(|| reader.next_line().unwrap()).collect()
}

fn text(logs: &Logs) -> Vec<u8> {
    let mut text = Vec::new();
    for line in lines(logs, 0) {
        text.extend(line.bytes);
        text.extend(line.ends_line.then_some(b'\n'));
    }
    text
}

fn write(logs: &Logs, step: &str, output: &[u8]) {
    let mut log = logs.append(&acme(), id(1)).unwrap().step(section(step), PLENTY);
    log.write(AT, output);
    log.finish(AT).sync();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_text_is_what_was_written(pieces in proptest::collection::vec((
        prop_oneof![
            proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'x'), Just(0xc3), Just(0xa4), any::<u8>()], 0..40),
            (8_000usize..20_000).prop_map(|length| "ä".repeat(length).into_bytes()),
        ],
        any::<bool>(),
    ), 0..8), just_enough in any::<bool>()) {
        let (_dir, logs) = logs(PLENTY);
        let written = pieces.iter().flat_map(|(piece, _)| piece.clone()).collect::<Vec<_>>();
        let bytes_max = if just_enough { written.len() as u64 } else { PLENTY };
        let mut log = logs.append(&acme(), id(1)).unwrap().step(section("one"), bytes_max);
        for (piece, is_idle) in &pieces {
            log.write(AT, piece);
            if *is_idle {
                log.idle(AT);
            }
        }
        drop(log.finish(AT));
        prop_assert!(lines(&logs, 0).iter().all(|line| line.bytes.len() <= file::LINE_BYTES_MAX));
        prop_assert_eq!(text(&logs), written);
    }
}

#[test]
fn a_reopened_log_continues_and_knows_which_step_wrote_each_line() {
    let (dir, first) = logs(PLENTY);
    write(&first, "one", b"a\nb\n");
    let second = Logs::open(&dir.path().join("logs"), PLENTY).unwrap();
    write(&second, "two", b"c\n");
    let all = lines(&second, 0);
    let seen = all.iter().map(|l| (l.number, &*l.section.as_ref().unwrap().step, &*l.bytes)).collect::<Vec<_>>();
    assert_eq!(seen, [(0, "one", &b"a"[..]), (1, "one", b"b"), (2, "two", b"c")]);
    assert_eq!(lines(&second, 2), all[2..]);
    assert!(read(&second, 2, 0).next_line().unwrap().is_none(), "no log of another deployment");
}

#[test]
fn a_log_with_a_torn_tail_is_readable_and_writable() {
    let (_dir, logs) = logs(PLENTY);
    write(&logs, "one", b"first\nsecond\n");
    let whole = fs::read(logs.path(&file(1))).unwrap();
    for cut in 0..whole.len() {
        fs::write(logs.path(&file(1)), &whole[..cut]).unwrap();
        let kept = text(&logs);
        assert!(b"first\nsecond\n".starts_with(&kept));
        write(&logs, "two", b"third\n");
        assert_eq!(text(&logs), [&kept[..], b"third\n"].concat(), "cut after {cut} bytes");
    }
    fs::write(logs.path(&file(1)), &whole).unwrap();
    OpenOptions::new().append(true).open(logs.path(&file(1))).unwrap().write_all(&[0; 4096]).unwrap();
    assert_eq!(text(&logs), b"first\nsecond\n", "zeros left by a power cut");
}

#[test]
fn a_reader_at_the_end_continues_when_more_is_appended() {
    let (_dir, logs) = logs(PLENTY);
    let mut watch = logs.watch(id(1));
    let mut log = logs.append(&acme(), id(1)).unwrap().step(section("one"), PLENTY);
    log.write(AT, b"a\nPassword: ");
    let mut reader = read(&logs, 1, 0);
    assert_eq!(reader.next_line().unwrap().unwrap().bytes, b"a");
    assert_eq!(reader.next_line().unwrap(), None);
    assert!(watch.has_changed().unwrap());
    watch.mark_unchanged();
    log.idle(AT);
    assert!(watch.has_changed().unwrap());
    let prompt = reader.next_line().unwrap().unwrap();
    assert_eq!((prompt.bytes, prompt.ends_line, prompt.number), (b"Password: ".to_vec(), false, 1));
}

#[test]
fn the_beginning_and_the_end_of_too_much_output_are_kept() {
    let (_dir, logs) = logs(PLENTY);
    let mut log = logs.append(&acme(), id(1)).unwrap().step(section("one"), 4_000);
    for number in 0..10_000 {
        log.write(AT, format!("line {number}\n").as_bytes());
    }
    drop(log.finish(AT));
    let text = String::from_utf8(text(&logs)).unwrap();
    assert!(text.starts_with("line 0\nline 1\n") && text.ends_with("\nline 9998\nline 9999\n"));
    assert!(text.len() < 4_200);
    let remark = text.lines().find(|line| line.starts_with("lockkeeper: … ")).unwrap();
    assert!(remark.ends_with(" bytes left out …"));
}

#[test]
fn a_remark_stands_on_a_line_of_its_own() {
    let (_dir, logs) = logs(PLENTY);
    let mut log = logs.append(&acme(), id(1)).unwrap().step(section("one"), PLENTY);
    log.write(AT, b"half");
    log.finish(AT).remark(AT, "killed 2 processes");
    assert_eq!(text(&logs), b"half\nlockkeeper: killed 2 processes\n");
}

#[test]
fn a_log_that_cannot_be_written_is_not_an_error() {
    let (_dir, logs) = logs(PLENTY);
    fs::create_dir(logs.path(&file(1))).unwrap();
    write(&logs, "one", b"lost\n");
}

#[test]
fn sweeping_removes_unwanted_logs_then_the_oldest_but_never_one_being_written() {
    let (_dir, logs) = logs(PLENTY);
    let mut written = logs.append(&acme(), id(1)).unwrap();
    written.remark(AT, &"x".repeat(100));
    for number in 2..=5 {
        logs.append(&acme(), id(number)).unwrap().remark(AT, &"x".repeat(80));
    }
    bounded(&logs, 300).sweep(|file| if file.deployment == id(5) { LogOwner::Nobody } else { of_acme() });
    assert_eq!(left(&logs), [id(1), id(4)]);
}

#[test]
fn one_organization_that_writes_much_loses_its_own_oldest_logs_and_nobody_elses() {
    let (_dir, logs) = logs(PLENTY);
    logs.append(&beta(), id(1)).unwrap().remark(AT, &"x".repeat(100));
    for number in 2..=20 {
        logs.append(&acme(), id(number)).unwrap().remark(AT, &"x".repeat(100));
    }
    let owner = |file: &LogFile| if file.deployment == id(1) { LogOwner::Organization(beta()) } else { of_acme() };
    let logs = bounded(&logs, 1_000);
    logs.sweep(owner);
    let kept = left(&logs);
    assert_eq!((kept[0], kept.last()), (id(1), Some(&id(20))));
    assert!((6..=8).contains(&kept.len()), "acme uses what beta leaves: {kept:?}");
    logs.sweep(|file| if kept.contains(&file.deployment) { LogOwner::Unknown } else { LogOwner::Nobody });
    assert_eq!(left(&logs), kept, "what cannot be read may be needed");
}

#[test]
fn without_space_output_is_left_out_with_a_remark_but_never_of_an_organization_with_little() {
    let (_dir, logs) = logs(4_000);
    let mut full = logs.append(&acme(), id(1)).unwrap().step(section("one"), PLENTY);
    let mut other = logs.append(&beta(), id(2)).unwrap().step(section("one"), PLENTY);
    for number in 0..100 {
        full.write(AT, format!("{number} {}\n", "x".repeat(100)).as_bytes());
    }
    other.write(AT, b"small\n");
    let remarks = |text: Vec<u8>| String::from_utf8(text).unwrap().matches("lockkeeper: output is left out").count();
    assert!(text(&logs).len() < 4_700 && remarks(text(&logs)) == 1);
    assert_eq!(read(&logs, 2, 0).next_line().unwrap().unwrap().bytes, b"small");
    full.finish(AT);
    logs.sweep(|file| if file.deployment == id(1) { LogOwner::Nobody } else { LogOwner::Organization(beta()) });
    assert_eq!(left(&logs), [id(2)]);
    let mut again = logs.append(&acme(), id(1)).unwrap().step(section("two"), PLENTY);
    again.write(AT, b"there is room again\n");
    assert_eq!(text(&logs), b"there is room again\n");
}

#[test]
fn what_was_left_out_is_counted_when_there_is_space_again() {
    let (_dir, logs) = logs(1_000);
    let mut log = logs.append(&acme(), id(1)).unwrap().step(section("one"), PLENTY);
    logs.append(&acme(), id(2)).unwrap().remark(AT, &"x".repeat(2_000));
    log.write(AT, b"lost\n");
    logs.sweep(|_| of_acme());
    log.write(AT, b"written\n");
    let text = String::from_utf8(text(&logs)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("lockkeeper: output is left out"), "{text}");
    assert!(lines[1].starts_with("lockkeeper: about ") && lines[2] == "written", "{text}");
}

/// The same logs with a lower limit on their space.
fn bounded(logs: &Logs, max_total_bytes: u64) -> Logs {
    Logs { space: Arc::new(Space::new(max_total_bytes)), ..logs.clone() }
}

fn of_acme() -> LogOwner {
    LogOwner::Organization(acme())
}

fn left(logs: &Logs) -> Vec<DeploymentId> {
    let mut left = logs.all().into_iter().map(|(file, _)| file.deployment).collect::<Vec<_>>();
    left.sort_unstable();
    left
}

fn in_parts(foreign_bytes_max: u64) -> (tempfile::TempDir, Logs, mpsc::Receiver<LogFile>) {
    let dir = tempfile::tempdir().unwrap();
    let (sender, ended) = mpsc::channel(4);
    let parts = Parts { foreign_bytes_max, ended: Some(sender) };
    let logs = Logs::open_in_parts(dir.path(), PLENTY, parts).unwrap();
    (dir, logs, ended)
}

fn write_part(logs: &Logs, number: u32, output: &[u8]) {
    let mut log = logs.append_part(&acme(), id(1), number).step(section("one"), PLENTY);
    log.write(AT, output);
    log.finish(AT).sync();
}

#[test]
fn the_parts_of_a_log_are_read_as_one_log() {
    let (_dir, logs, _ended) = in_parts(PLENTY);
    write_part(&logs, 0, b"a\nhalf");
    write_part(&logs, 2, b"b\n");
    let log = |parts: &[u32]| LogId { organization: acme(), deployment: id(1), parts: parts.to_vec() };
    let texts = |parts: &[u32], from| {
        let mut reader = logs.read(&log(parts), from);
        let lines = std::iter::from_fn(move || reader.next_line().unwrap());
        lines.map(|line| (line.number, String::from_utf8(line.bytes).unwrap(), line.ends_line)).collect::<Vec<_>>()
    };
    let line = |number, text: &str, ends| (number, text.to_owned(), ends);
    let whole = [line(0, "a", true), line(1, "half", false), line(2, "", true), line(3, "b", true)];
    // With a part that is on another node, and one that was begun and has no file yet.
    assert_eq!(texts(&[0, 1, 2, 3], 0), whole);
    assert_eq!(texts(&[0, 2], 3), whole[3..]);
    assert_eq!(texts(&[], 0), []);
    // A follower sees parts that are begun meanwhile, once each.
    let mut reader = logs.read(&log(&[0]), 0);
    while reader.next_line().unwrap().is_some() {}
    for _ in 0..2 {
        logs.extend(&mut reader, &log(&[0, 2]));
    }
    assert_eq!(reader.next_line().unwrap().map(|line| line.bytes), Some(Vec::new()), "the end of the open line");
    let next = reader.next_line().unwrap().unwrap();
    assert_eq!((next.number, &*next.bytes), (3, &b"b"[..]));
    write_part(&logs, 2, b"c\n");
    assert_eq!(reader.next_line().unwrap().unwrap().bytes, b"c");
    assert_eq!(reader.next_line().unwrap(), None);
}

#[test]
fn a_log_is_pending_until_all_of_it_is_uploaded() {
    let (dir, logs, mut ended) = in_parts(PLENTY);
    let file = logs.file(&acme(), id(1), 0);
    let writer = logs.append_part(&acme(), id(1), 0);
    assert_eq!(logs.pending(), [], "it is being written");
    drop(writer);
    assert_eq!(logs.pending(), std::slice::from_ref(&file), "after a stage without an end");
    write_part(&logs, 0, b"one\n");
    assert_eq!(ended.try_recv().unwrap(), file);
    let first = logs.settled(&file).unwrap();
    write_part(&logs, 0, b"two\n");
    logs.uploaded(&file, first);
    assert_eq!(logs.pending(), std::slice::from_ref(&file), "it has grown");
    // Also after a restart, and with a tail that a crash has torn.
    let mut tail = OpenOptions::new().append(true).open(logs.path(&file)).unwrap();
    tail.write_all(b"torn").unwrap();
    let again = Logs::open_in_parts(dir.path(), PLENTY, logs.parts.clone().unwrap()).unwrap();
    assert_eq!(again.pending(), std::slice::from_ref(&file));
    let now = again.settled(&file).unwrap().unwrap();
    assert_eq!(now.length + 4, fs::metadata(logs.path(&file)).unwrap().len());
    assert_eq!(again.bytes(&file, 0, 8).unwrap().unwrap(), file::HEADER);
    again.uploaded(&file, Some(now));
    assert_eq!(again.pending(), []);
    // More stages than the queue holds never wait.
    for _ in 0..9 {
        write_part(&logs, 0, b"more\n");
    }
    assert_eq!(logs.pending(), std::slice::from_ref(&file));
    logs.sweep(|_| LogOwner::Nobody);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the mark goes with its log");
}

#[test]
fn a_copy_is_there_when_it_is_whole_and_continues_what_is_here() {
    let (_dir, logs, _ended) = in_parts(PLENTY);
    write_part(&logs, 0, b"one\ntwo\n");
    let (own, copied) = (logs.file(&acme(), id(1), 0), logs.file(&acme(), id(1), 1));
    let bytes = logs.bytes(&own, 0, 10_000).unwrap().unwrap();
    let mut copy = logs.copy_of(&copied, &acme()).unwrap();
    assert!(copy.write(&bytes[..bytes.len() - 3]).unwrap());
    drop(copy);
    assert!(!logs.has(&copied), "not half a log");
    let mut copy = logs.copy_of(&copied, &acme()).unwrap();
    assert_eq!(copy.length(), 0);
    copy.write(&bytes[..bytes.len() - 3]).unwrap();
    copy.finish().unwrap();
    // The copy continues after the last whole line.
    let mut copy = logs.copy_of(&copied, &acme()).unwrap();
    let from = usize::try_from(copy.length()).unwrap();
    assert!(from < bytes.len() - 3 && from > file::HEADER.len());
    copy.write(&bytes[from..]).unwrap();
    copy.finish().unwrap();
    assert_eq!(logs.bytes(&copied, 0, 10_000).unwrap().unwrap(), bytes);
    assert_eq!(logs.pending(), [own], "a copy is not uploaded");
    let full = bounded(&logs, 10);
    full.sweep(|_| LogOwner::Organization(acme()));
    let (mut copy, one) =
        (full.copy_of(&copied, &acme()).unwrap(), full.copy_of(&logs.file(&acme(), id(3), 0), &acme()));
    assert!(copy.write(&[0; 20]).unwrap() && !one.unwrap().write(&[0; 20]).unwrap(), "copies have the same bound");
}

#[test]
fn logs_of_other_nodes_have_a_bound_of_their_own() {
    let (_dir, logs, _ended) = in_parts(4 * BLOCK_BYTES);
    for number in 1..=8 {
        logs.append_part(&acme(), id(number), 0).remark(AT, "x");
    }
    // These are in the store.
    for number in 2..=7 {
        let file = logs.file(&acme(), id(number), 0);
        logs.uploaded(&file, logs.settled(&file).unwrap());
    }
    logs.sweep(|file| if file.deployment == id(1) { of_acme() } else { LogOwner::Foreign });
    assert_eq!(left(&logs), [1, 4, 5, 6, 7, 8].map(id), "what is only here stays");
    let without_store = Logs { parts: Some(Parts { foreign_bytes_max: 0, ended: None }), ..logs };
    without_store.sweep(|_| LogOwner::Foreign);
    assert_eq!(left(&without_store), [1, 4, 5, 6, 7, 8].map(id), "these are the only ones");
}

#[test]
fn logs_can_be_copied_from_one_machine_into_a_cluster_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let one = Logs::open(dir.path(), PLENTY).unwrap();
    let node = Logs::open_in_parts(dir.path(), PLENTY, Parts { foreign_bytes_max: PLENTY, ended: None }).unwrap();
    let text = |logs: &Logs, parts: &[u32]| {
        let mut reader = logs.read(&LogId::of(&acme(), id(1), parts.to_vec()), 0);
        let lines = std::iter::from_fn(|| reader.next_line().unwrap());
        lines.map(|line| String::from_utf8(line.bytes).unwrap()).collect::<Vec<_>>()
    };
    write_part(&one, 0, b"alone\n");
    assert_eq!((text(&one, &[]), text(&node, &[])), (vec!["alone".to_owned()], vec!["alone".to_owned()]));
    fs::remove_file(dir.path().join(format!("{}.log", id(1)))).unwrap();
    write_part(&node, 0, b"first\n");
    write_part(&node, 1, b"second\n");
    write_part(&one, 0, b"again\n");
    assert_eq!(text(&node, &[0, 1]), ["first", "second"]);
    assert_eq!(text(&one, &[0, 1]), ["first", "second", "again"]);
}

#[test]
fn nothing_is_left_of_a_copy_that_was_given_up() {
    let (dir, logs, _ended) = in_parts(PLENTY);
    let mut copy = logs.copy_of(&logs.file(&acme(), id(1), 0), &acme()).unwrap();
    assert!(copy.write(b"half").unwrap());
    drop(copy);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
