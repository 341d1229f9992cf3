//! Proves that the checker has no false alarms and misses nothing: it accepts every history of a correct server,
//! however its answers were delayed or lost, and refuses planted faults, both hand-written and in simulated histories.

use crate::linearizability::checker::{Verdict, check};
use crate::linearizability::history::{
    Answer, Claim, History, Interval, Lock, Moment, Record, Request, Session, Status,
};
use crate::linearizability::report;
use crate::linearizability::report::minimised;
use crate::simulation::{self, Fault};

const HISTORIES: u64 = 100;
const OPERATIONS: usize = 200;
/// Percentage of the faults that occurred. The others left no trace in any answer: an unknown outcome or an expired
/// lease explains the answers as well.
const FOUND_AT_LEAST: usize = 65;

/// A history without overlap: each request is answered before the next is sent.
fn one_after_the_other(steps: Vec<(Request, Answer)>) -> History {
    let record = |(index, (request, answer)): (usize, (Request, Answer))| {
        let sent = 10 * index as Moment;
        Record { client: 0, sent, ended: sent + 5, request, answer, let_go: None }
    };
    History { records: steps.into_iter().enumerate().map(record).collect(), ..History::default() }
}

fn claim() -> Request {
    Request::Claim(Claim::default())
}

fn queue() -> Request {
    Request::Claim(Claim { queues: true, ..Claim::default() })
}

fn lock(session: u32, fencing: u64) -> Lock {
    Lock { session: Session(session), fencing }
}

fn granted(session: u32, fencing: u64) -> Answer {
    Answer::Granted { lock: lock(session, fencing), overrode: None }
}

fn queued(session: u32, position: usize) -> Answer {
    Answer::Queued { session: Session(session), position }
}

fn released(fencing: u64) -> Answer {
    Answer::Session { status: Status::Released, fencing: Some(fencing), position: None }
}

fn active(fencing: u64) -> Answer {
    Answer::Session { status: Status::Active, fencing: Some(fencing), position: None }
}

fn held(lock: Option<Lock>) -> Answer {
    Answer::Environment { lock, queue_length: 0 }
}

fn release(session: u32) -> Request {
    Request::Release(Session(session))
}

fn is_refused_at(history: &History, record: usize) {
    match check(history) {
        Verdict::Violation(violation) => assert_eq!(violation.record, record, "{violation:?}"),
        verdict => panic!("{verdict:?}"),
    }
}

fn is_accepted(history: &History) {
    assert_eq!(check(history), Verdict::Linearizable);
}

#[test]
fn two_holders_are_refused() {
    is_refused_at(&one_after_the_other(vec![(claim(), granted(0, 1)), (claim(), granted(1, 2))]), 1);
}

#[test]
fn a_lost_claim_is_refused() {
    let read = (Request::ReadEnvironment, held(None));
    is_refused_at(&one_after_the_other(vec![(claim(), granted(0, 1)), read]), 1);
    let mut killed = one_after_the_other(vec![(claim(), granted(0, 1)), (claim(), granted(1, 1))]);
    killed.kills.push(7);
    assert!(matches!(check(&killed), Verdict::Violation(_)));
}

#[test]
fn a_lost_release_is_refused() {
    let steps = vec![
        (claim(), granted(0, 1)),
        (release(0), released(1)),
        (claim(), Answer::Locked { holder: Some(lock(0, 1)) }),
    ];
    is_refused_at(&one_after_the_other(steps), 2);
}

#[test]
fn a_stale_read_is_refused() {
    let steps =
        vec![(claim(), granted(0, 1)), (release(0), released(1)), (Request::ReadEnvironment, held(Some(lock(0, 1))))];
    is_refused_at(&one_after_the_other(steps), 2);
    let steps =
        vec![(claim(), granted(0, 1)), (release(0), released(1)), (Request::ReadSession(Session(0)), active(1))];
    is_refused_at(&one_after_the_other(steps), 2);
}

#[test]
fn a_repeated_token_is_refused() {
    let steps = vec![(claim(), granted(0, 1)), (release(0), released(1)), (claim(), granted(1, 1))];
    is_refused_at(&one_after_the_other(steps), 2);
    let steps = vec![(claim(), granted(0, 1)), (release(0), released(1)), (claim(), granted(1, 3))];
    is_refused_at(&one_after_the_other(steps), 2);
}

#[test]
fn overtaking_is_refused() {
    let behind = |first, second| {
        let steps = vec![
            (claim(), granted(0, 1)),
            (queue(), queued(1, 1)),
            (queue(), queued(2, 2)),
            (release(0), released(1)),
            (Request::ReadSession(Session(first)), active(2)),
            (release(first), released(2)),
            (Request::ReadSession(Session(second)), active(3)),
        ];
        one_after_the_other(steps)
    };
    is_accepted(&behind(1, 2));
    // The second session cannot have come first, as its later grant shows.
    is_refused_at(&behind(2, 1), 2);
}

#[test]
fn a_request_executed_twice_under_one_key_is_refused() {
    let keyed = |key| Request::Claim(Claim { key: Some(key), ..Claim::default() });
    let history = |second| {
        one_after_the_other(vec![
            (keyed(7), Answer::Unknown),
            (keyed(7), granted(0, 1)),
            (release(0), released(1)),
            (keyed(7), second),
        ])
    };
    is_accepted(&history(granted(0, 1)));
    is_refused_at(&history(granted(1, 2)), 3);
}

#[test]
fn a_lease_may_run_out_but_not_early() {
    let history = |ended: Moment| {
        let ttl = Some(1_000_000_000);
        let claim = Request::Claim(Claim { ttl, ..Claim::default() });
        let mut history = one_after_the_other(vec![(claim, granted(0, 1)), (Request::ReadEnvironment, held(None))]);
        history.records[1].ended = ended;
        history
    };
    is_accepted(&history(1_000_000_010));
    is_refused_at(&history(900_000_000), 1);
}

#[test]
fn what_is_not_known_may_have_happened_at_any_time_until_the_server_is_killed() {
    let unknown = vec![
        (claim(), granted(0, 1)),
        (release(0), Answer::Unknown),
        (claim(), Answer::Locked { holder: Some(lock(0, 1)) }),
        (claim(), granted(1, 2)),
    ];
    let mut history = one_after_the_other(unknown);
    is_accepted(&history);
    history.kills.push(26);
    is_accepted(&history);
    // The lock was still held afterwards, so the release was lost.
    history.kills[0] = 16;
    is_refused_at(&history, 3);
}

#[test]
fn a_claim_that_was_never_answered_may_have_waited_though_another_took_the_free_lock() {
    let first = Request::Claim(Claim { queues: true, priority: 1, ..Claim::default() });
    let history = one_after_the_other(vec![
        (claim(), Answer::Unknown),
        (claim(), Answer::Locked { holder: Some(lock(0, 1)) }),
        (queue(), queued(1, 1)),
        (first, Answer::Unknown),
        (release(0), released(1)),
        (claim(), Answer::Locked { holder: Some(lock(2, 2)) }),
    ]);
    is_accepted(&history);
}

#[test]
fn a_place_on_a_connection_is_gone_after_a_kill_and_one_with_a_session_is_not() {
    let wait = Request::Claim(Claim { wait: 1_000_000_000, ..Claim::default() });
    let length = |length| Answer::Environment { lock: Some(lock(0, 1)), queue_length: length };
    let history = |request: Request, answer: Answer, left| {
        let mut history = one_after_the_other(vec![
            (claim(), granted(0, 1)),
            (request, answer),
            (Request::ReadEnvironment, length(1)),
            (Request::ReadEnvironment, length(left)),
        ]);
        history.kills.push(27);
        history
    };
    is_accepted(&history(wait.clone(), Answer::Unknown, 0));
    is_refused_at(&history(wait, Answer::Unknown, 1), 3);
    is_accepted(&history(queue(), queued(1, 1), 1));
    is_refused_at(&history(queue(), queued(1, 1), 0), 3);
}

#[test]
fn every_history_of_a_server_that_keeps_its_promises_is_accepted() {
    for seed in 0..HISTORIES {
        let (history, _) = simulation::history(seed, OPERATIONS, None, false);
        let verdict = check(&history);
        assert_eq!(verdict, Verdict::Linearizable, "seed {seed}\n{}", report::verdict(&history, &verdict));
    }
}

#[test]
fn the_simulated_histories_have_something_of_everything() {
    let mut seen = [0; 9];
    for seed in 0..HISTORIES {
        let (history, _) = simulation::history(seed, OPERATIONS, None, false);
        seen[0] += history.kills.len();
        for Record { request, answer, .. } in &history.records {
            seen[1] += usize::from(*answer == Answer::Unknown);
            seen[2] += usize::from(matches!(answer, Answer::Session { status: Status::Expired, .. }));
            seen[3] += usize::from(matches!(answer, Answer::Session { status: Status::Overridden, .. }));
            seen[4] += usize::from(matches!(answer, Answer::Session { position: Some(2..), .. }));
            seen[5] += usize::from(
                matches!((request, answer), (Request::Claim(claim), Answer::Granted { .. }) if claim.waits()),
            );
            seen[6] += usize::from(
                matches!((request, answer), (Request::Claim(claim), Answer::Locked { .. }) if claim.waits()),
            );
            seen[7] += usize::from(matches!(answer, Answer::Queue(waiting) if waiting.len() > 2));
            seen[8] += usize::from(matches!((request, answer), (Request::Heartbeat(_), Answer::Session { .. })));
        }
    }
    assert!(seen.iter().all(|seen| *seen as u64 > HISTORIES / 3), "{seen:?}");
}

fn is_found(fault: Fault) {
    is_found_in(false, fault);
}

fn is_found_in_a_cluster(fault: Fault) {
    is_found_in(true, fault);
}

fn is_found_in(in_cluster: bool, fault: Fault) {
    let (mut planted, mut found) = (0, 0);
    let mut first = None;
    for seed in 0..HISTORIES {
        let (history, was_planted) = simulation::history(seed, OPERATIONS, Some(fault), in_cluster);
        match (check(&history), was_planted) {
            (Verdict::Linearizable, _) => {}
            (Verdict::Violation(_), true) => {
                found += 1;
                first.get_or_insert(history);
            }
            (verdict, _) => panic!("seed {seed}: {verdict:?}"),
        }
        planted += usize::from(was_planted);
    }
    assert!(
        planted as u64 > HISTORIES / 2 && found * 100 >= planted * FOUND_AT_LEAST,
        "{fault:?}: {found} of {planted}"
    );
    let whole = first.expect("one was found");
    let short = minimised(&whole);
    assert!(matches!(check(&short), Verdict::Violation(_)) && short.records.len() < whole.records.len());
}

#[test]
fn a_server_that_gives_a_lock_to_two_is_found() {
    is_found(Fault::TwoHolders);
}

#[test]
fn a_server_that_loses_a_claim_is_found() {
    is_found(Fault::LostClaim);
}

#[test]
fn a_server_that_loses_a_release_is_found() {
    is_found(Fault::LostRelease);
}

#[test]
fn a_server_that_shows_an_old_state_is_found() {
    is_found(Fault::StaleRead);
}

#[test]
fn a_server_that_repeats_a_token_is_found() {
    is_found(Fault::RepeatedToken);
}

#[test]
fn a_server_that_lets_one_overtake_is_found() {
    is_found(Fault::Overtaking);
}

/// Another node takes over between the second and the third request, which are sent at 10 and 20.
fn taken_over(steps: Vec<(Request, Answer)>) -> History {
    let takeovers = vec![Interval { since: 16, by: 18 }];
    History { takeovers, ..one_after_the_other(steps) }
}

#[test]
fn a_place_with_a_session_that_vanishes_at_a_take_over_is_refused() {
    let seen = |length| Answer::Environment { lock: Some(lock(0, 1)), queue_length: length };
    let history = |length| {
        taken_over(vec![(claim(), granted(0, 1)), (queue(), queued(1, 1)), (Request::ReadEnvironment, seen(length))])
    };
    is_accepted(&history(1));
    is_refused_at(&history(0), 2);
    let read = |answer| {
        taken_over(vec![(claim(), granted(0, 1)), (queue(), queued(1, 1)), (Request::ReadSession(Session(1)), answer)])
    };
    is_accepted(&read(Answer::Session { status: Status::Queued, fencing: None, position: Some(1) }));
    is_refused_at(&read(Answer::NoSuchSession), 2);
    is_refused_at(&read(Answer::Session { status: Status::Expired, fencing: None, position: None }), 2);
}

#[test]
fn two_holders_across_a_take_over_are_refused() {
    let history = |second| {
        taken_over(vec![(claim(), granted(0, 1)), (Request::ReadQueue, Answer::Queue(Vec::new())), (claim(), second)])
    };
    is_accepted(&history(Answer::Locked { holder: Some(lock(0, 1)) }));
    is_refused_at(&history(granted(1, 2)), 2);
}

#[test]
fn what_was_shown_before_a_take_over_is_not_forgotten_after_it() {
    let history = |after| {
        taken_over(vec![(claim(), granted(0, 1)), (release(0), released(1)), (Request::ReadEnvironment, held(after))])
    };
    is_accepted(&history(None));
    is_refused_at(&history(Some(lock(0, 1))), 2);
}

#[test]
fn a_place_on_a_connection_that_outlives_a_take_over_is_refused() {
    let history = |is_seen: bool| {
        let wait = Request::Claim(Claim { wait: 1_000_000_000, ..Claim::default() });
        let length = Answer::Environment { lock: Some(lock(0, 1)), queue_length: usize::from(is_seen) };
        let mut history = taken_over(vec![
            (claim(), granted(0, 1)),
            (Request::ReadEnvironment, length),
            (release(0), released(1)),
            (wait, granted(1, 2)),
        ]);
        history.records[3].sent = 6;
        history
    };
    // The unanswered request may have reached only the new owner.
    is_accepted(&history(false));
    is_refused_at(&history(true), 3);
}

#[test]
fn a_request_that_no_node_passes_on_any_more_has_no_effect_after_a_take_over() {
    let history = |let_go| {
        let mut history = taken_over(vec![
            (claim(), granted(0, 1)),
            (release(0), Answer::Unknown),
            (claim(), Answer::Locked { holder: Some(lock(0, 1)) }),
            (claim(), granted(1, 2)),
        ]);
        history.records[1].let_go = let_go;
        history
    };
    // The node that got the release may have kept it, or forwarded it only after the takeover.
    is_accepted(&history(None));
    is_accepted(&history(Some(17)));
    is_refused_at(&history(Some(15)), 3);
}

#[test]
fn a_claim_that_was_never_answered_takes_no_lock_once_it_is_over() {
    let history = |let_go| {
        let mut history = taken_over(vec![
            (Request::ReadEnvironment, held(None)),
            (claim(), Answer::Unknown),
            (Request::ReadEnvironment, held(None)),
            (Request::ReadEnvironment, held(Some(lock(0, 1)))),
        ]);
        history.records[1].let_go = let_go;
        history
    };
    is_accepted(&history(None));
    is_refused_at(&history(Some(15)), 3);
}

#[test]
fn a_place_in_the_queue_is_given_early_only_by_a_node_that_is_being_stopped() {
    let mut history = one_after_the_other(vec![
        (claim(), granted(0, 1)),
        (Request::Claim(Claim { wait: 1_000_000_000, queues: true, ..Claim::default() }), queued(1, 1)),
    ]);
    is_refused_at(&history, 1);
    history.stops.push(Interval { since: 12, by: 20 });
    is_accepted(&history);
}

#[test]
fn every_history_of_a_cluster_that_keeps_its_promises_is_accepted() {
    let (mut takeovers, mut let_go) = (0, 0);
    for seed in 0..HISTORIES {
        let (history, _) = simulation::history(seed, OPERATIONS, None, true);
        takeovers += history.takeovers.len();
        let_go += history.records.iter().filter(|record| record.let_go.is_some()).count();
        let verdict = check(&history);
        assert_eq!(verdict, Verdict::Linearizable, "seed {seed}\n{}", report::verdict(&history, &verdict));
    }
    assert!(takeovers as u64 > HISTORIES / 3 && let_go as u64 > HISTORIES, "{takeovers} {let_go}");
}

#[test]
fn a_cluster_that_breaks_a_promise_of_a_server_is_found() {
    for fault in [
        Fault::TwoHolders,
        Fault::LostClaim,
        Fault::LostRelease,
        Fault::StaleRead,
        Fault::RepeatedToken,
        Fault::Overtaking,
    ] {
        is_found_in_a_cluster(fault);
    }
}

#[test]
fn a_take_over_that_loses_a_place_is_found() {
    is_found_in_a_cluster(Fault::LostPlace);
}

#[test]
fn a_take_over_that_forgets_the_holder_is_found() {
    is_found_in_a_cluster(Fault::LostHolder);
}
