use crate::checks::queue_order::NAME;
use crate::checks::tests::history_builder::{CLAIM, CLAIM_ANY, HistoryBuilder, granted, refused, waiting};
use crate::history::{Answer, Request};

/// A session that holds the lock until 5 s while others queue.
fn held() -> HistoryBuilder {
    HistoryBuilder::new().claim(0.0, 0.1, "holder", 1).release(5.0, 5.1, "holder")
}

#[test]
fn one_who_passes_another_in_line_is_found() {
    let story = held().claim_in_line(1.0, 2.0, 8.0, "a", 3).claim(3.0, 6.0, "b", 2);
    story.breaks(NAME, "b got load-0 (fencing 2) before a (fencing 3), which was in line when it asked", 2);
}

#[test]
fn one_who_asks_at_the_moment_when_another_is_in_line_comes_after_it() {
    held().claim_in_line(1.0, 2.0, 8.0, "a", 3).claim(2.0, 6.0, "b", 2).breaks(NAME, "b got load-0", 2);
    held().claim_in_line(1.0, 2.0, 6.0, "a", 2).claim(2.0, 8.0, "b", 3).keeps(NAME);
}

#[test]
fn one_who_asked_before_the_other_was_known_to_be_in_line_may_come_first() {
    held().claim_in_line(1.0, 2.0, 8.0, "a", 3).claim(1.9, 6.0, "b", 2).says_nothing_about(NAME);
    held().claim(1.0, 8.0, "a", 3).claim(3.0, 6.0, "b", 2).says_nothing_about(NAME);
}

#[test]
fn one_who_asks_when_the_other_has_been_told_is_no_matter_of_the_line() {
    held().claim_in_line(1.0, 2.0, 6.0, "a", 2).claim(6.0, 8.0, "b", 3).says_nothing_about(NAME);
}

#[test]
fn a_force_claim_passes_the_line() {
    let story = held().claim_in_line(1.0, 2.0, 8.0, "a", 3).force_claim(3.0, 4.0, "b", 2);
    story.says_nothing_about(NAME);
}

#[test]
fn who_had_no_turn_was_not_passed() {
    for answer in [Answer::Unknown, refused(409, "environment_locked")] {
        held().with(waiting(2.0), 1.0, 9.0, answer).claim(3.0, 6.0, "b", 2).says_nothing_about(NAME);
    }
}

#[test]
fn a_claim_that_was_sent_again_keeps_its_place() {
    let retried = held().with(CLAIM, 1.0, 1.5, Answer::Unknown).by(7).claim_in_line(1.6, 2.0, 8.0, "a", 3);
    retried.claim(3.0, 6.0, "b", 2).by(7).says_nothing_about(NAME);
}

#[test]
fn a_claim_for_any_environment_waits_behind_those_in_line_but_has_no_place_there() {
    let any = |session, fencing| (CLAIM_ANY, granted(session, fencing));
    let (request, answer) = any("b", 2);
    held().claim_in_line(1.0, 2.0, 8.0, "a", 3).with(request, 3.0, 6.0, answer).breaks(NAME, "b got load-0", 2);
    let story = held().claim(3.0, 6.0, "b", 2);
    let patient =
        Request::Claim { any: true, in_line_at: Some(crate::checks::tests::history_builder::at(2.0)), ttl: None };
    story.with(patient, 1.0, 8.0, granted("a", 3)).says_nothing_about(NAME);
}

#[test]
fn the_one_who_is_passed_by_most_is_found_in_a_long_line() {
    let mut story = held();
    for number in 0..100u32 {
        let sent = 1.0 + f64::from(number) / 100.0;
        // The second claim is granted last.
        let token = if number == 1 { 101 } else { u64::from(number).max(1) + 1 };
        story = story.claim_in_line(sent, sent + 0.005, 10.0 + token as f64, &format!("s{number}"), token);
    }
    let check = story.check(NAME);
    assert_eq!((check.examined, check.violation_count), (99, 98), "{check:#?}");
}
