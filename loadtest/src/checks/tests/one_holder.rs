use crate::checks::one_holder::NAME;
use crate::checks::tests::history_builder::{CLAIM, HistoryBuilder, name, refused};
use crate::history::{Answer, Request};

fn release(session: &str) -> Request {
    Request::Release { session: name(session) }
}

#[test]
fn two_holders_at_once_are_found() {
    let story = HistoryBuilder::new().claim(0.0, 1.0, "a", 1).claim(1.0, 2.0, "b", 2).release(3.0, 4.0, "a");
    story.breaks(NAME, "load-0 had two holders from 2.000000 s until 3.000000 s: a (fencing 1) and b (fencing 2)", 3);
    story.release(3.5, 4.0, "b").breaks(NAME, "two holders", 4);
}

#[test]
fn every_one_who_overlaps_is_found_also_behind_a_short_one() {
    let story = HistoryBuilder::new()
        .claim(0.0, 1.0, "a", 1)
        .claim(1.0, 2.0, "b", 2)
        .release(3.0, 4.0, "b")
        .claim(4.0, 5.0, "c", 3);
    let check = story.check(NAME);
    assert_eq!((check.examined, check.violation_count), (2, 2), "{check:#?}");
    assert!(check.violations[1].what.contains("from 5.000000 s on: a (fencing 1) and c (fencing 3)"), "{check:#?}");
}

#[test]
fn a_lock_may_pass_on_as_soon_as_its_release_is_sent() {
    let story = || HistoryBuilder::new().claim(0.0, 1.0, "a", 1).claim(0.5, 2.0, "b", 2);
    story().release(2.0, 3.0, "a").keeps(NAME);
    story().with(release("a"), 2.0, 3.0, Answer::Unknown).keeps(NAME);
    story().with(release("a"), 2.0, 3.0, refused(503, "overloaded")).keeps(NAME);
    story().release(2.001, 3.0, "a").breaks(NAME, "two holders", 3);
}

#[test]
fn who_may_have_been_displaced_is_no_certain_holder() {
    let story = || HistoryBuilder::new().claim(0.0, 1.0, "a", 1);
    story().force_claim(1.0, 2.0, "b", 2).says_nothing_about(NAME);
    story().force_claim(1.5, 2.0, "b", 2).keeps(NAME);
    // The lost grant may even happen after its client has given up.
    let lost = || story().with(Request::ForceClaim, 1.5, 1.6, Answer::Unknown);
    lost().claim(2.0, 3.0, "c", 3).release(4.0, 4.1, "c").claim(4.0, 5.0, "d", 4).keeps(NAME);
    // But not between these two: the force-claim would have taken the token between theirs.
    let told = lost().claim(2.0, 3.0, "c", 2).release(4.0, 4.1, "c").claim(4.0, 5.0, "d", 3).release(6.0, 6.1, "d");
    let check = told.check(NAME);
    assert_eq!((check.examined, check.violation_count), (1, 1), "{check:#?}");
    let refused = story().with(Request::ForceClaim, 1.5, 1.6, refused(403, "permission_denied"));
    refused.claim(2.0, 3.0, "c", 3).breaks(NAME, "two holders", 2);
}

#[test]
fn a_force_claim_does_not_excuse_a_second_one() {
    let story = HistoryBuilder::new().claim(0.0, 1.0, "a", 1).force_claim(2.0, 3.0, "b", 2).claim(3.0, 4.0, "c", 3);
    story.breaks(NAME, "b (fencing 2) and c (fencing 3)", 2);
}

#[test]
fn where_others_force_claim_only_what_the_server_acknowledged_counts() {
    let story = || HistoryBuilder::new().among_others().claim(0.0, 1.0, "a", 1).claim(2.0, 3.0, "c", 7);
    story().says_nothing_about(NAME);
    let beating = || story().heartbeat(5.0, 5.1, "c");
    beating().heartbeat(2.5, 2.6, "a").keeps(NAME);
    beating().heartbeat(3.5, 3.6, "a").breaks(NAME, "until 3.500000 s", 2);
}

#[test]
fn a_lock_may_pass_on_when_its_ttl_may_have_run_out() {
    let story = |next| HistoryBuilder::new().claim_with_ttl(0.0, 1.0, 10.0, "a", 1).claim(0.5, next, "b", 2);
    story(9.0).breaks(NAME, "two holders from 9.000000 s until 9.980000 s", 2);
    // The server counts in milliseconds, by its own clock.
    story(9.98).keeps(NAME);
    story(10.0).keeps(NAME);
    story(9.0).release(8.0, 8.1, "a").keeps(NAME);
}

#[test]
fn a_heartbeat_that_was_acknowledged_keeps_a_lock() {
    let story = || HistoryBuilder::new().claim_with_ttl(0.0, 1.0, 10.0, "a", 1).claim(0.5, 12.0, "b", 2);
    let beat = Request::Heartbeat { session: name("a") };
    story().keeps(NAME);
    story().heartbeat(5.0, 6.0, "a").breaks(NAME, "until 14.980000 s", 2);
    story().deploy(5.0, 6.0, "a").breaks(NAME, "until 14.980000 s", 2);
    story().with(beat.clone(), 5.0, 6.0, Answer::Unknown).keeps(NAME);
    // This may be the answer to the first heartbeat.
    story().with(beat, 1.5, 1.6, Answer::Unknown).heartbeat(5.0, 6.0, "a").keeps(NAME);
}

#[test]
fn what_nobody_was_told_is_no_holder() {
    let story =
        HistoryBuilder::new().claim(0.0, 1.0, "a", 1).with(CLAIM, 1.0, 2.0, Answer::Unknown).release(3.0, 4.0, "a");
    story.claim(3.0, 5.0, "b", 2).keeps(NAME);
}

#[test]
fn environments_do_not_share_their_holders() {
    let story = HistoryBuilder::new().claim(0.0, 1.0, "a", 1).claim(0.0, 1.0, "b", 1).of(Some(1));
    story.says_nothing_about(NAME);
}

#[test]
fn a_lock_that_was_told_again_much_later_may_be_gone() {
    let story = |told| {
        let lost = HistoryBuilder::new().with(CLAIM, 0.0, 1.0, Answer::Unknown).by(7);
        lost.claim(told - 0.5, told, "a", 1).by(7).claim(told, told + 1.0, "b", 2)
    };
    story(20.0).breaks(NAME, "two holders", 2);
    story(40.0).says_nothing_about(NAME);
}
