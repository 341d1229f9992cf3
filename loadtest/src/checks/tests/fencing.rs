use crate::checks::fencing::NAME;
use crate::checks::tests::history_builder::{CLAIM, CLAIM_ANY, HistoryBuilder, granted};
use crate::history::{Answer, Request};

#[test]
fn a_token_that_falls_is_found() {
    let story = HistoryBuilder::new().claim(0.0, 1.0, "a", 2).release(1.0, 1.5, "a").claim(1.0, 2.0, "b", 1);
    story.breaks(NAME, "load-0 was granted with fencing 1 after 2", 2);
}

#[test]
fn claims_that_were_under_way_at_once_may_be_granted_in_any_order() {
    let story = HistoryBuilder::new()
        .claim(0.0, 2.0, "a", 1)
        .release(2.0, 3.0, "a")
        .claim(0.5, 1.0, "b", 2)
        .release(1.0, 1.5, "b");
    // Each gave it back as soon as it was told, so neither certainly held it.
    story.keeps(NAME);
}

#[test]
fn who_certainly_held_the_lock_came_after_those_who_were_told_before() {
    let story = HistoryBuilder::new()
        .claim(0.0, 2.0, "a", 1)
        .release(3.0, 4.0, "a")
        .claim(0.5, 1.0, "b", 2)
        .release(1.0, 1.5, "b");
    story.breaks(NAME, "fencing 1 after 2", 2);
}

#[test]
fn a_token_that_two_sessions_have_is_found() {
    let story = HistoryBuilder::new().claim(0.0, 1.0, "a", 1).claim(0.0, 1.0, "b", 1);
    story.breaks(NAME, "load-0 was granted to a and to b with fencing 1", 2);
}

#[test]
fn an_answer_that_is_repeated_is_no_second_session() {
    let story = || HistoryBuilder::new().claim(0.0, 1.0, "a", 1).claim(2.0, 3.0, "a", 1);
    story().claim(4.0, 5.0, "b", 2).keeps(NAME);
    story().claim(1.5, 5.0, "b", 2).keeps(NAME);
    HistoryBuilder::new().claim(0.0, 1.0, "a", 1).claim(2.0, 3.0, "a", 2).breaks(NAME, "granted twice", 2);
    HistoryBuilder::new().claim(0.0, 1.0, "a", 1).claim(2.0, 3.0, "a", 1).of(Some(1)).breaks(NAME, "granted twice", 2);
}

#[test]
fn a_claim_that_was_sent_again_may_be_older_than_its_answer() {
    let retried = |client| {
        let lost = HistoryBuilder::new().with(CLAIM, 0.0, 1.0, Answer::Unknown).by(7);
        lost.claim(1.0, 2.0, "b", 2).claim(3.0, 40.0, "a", 1).by(client)
    };
    retried(7).keeps(NAME);
    retried(8).breaks(NAME, "fencing 1 after 2", 2);
    let any = HistoryBuilder::new().with(CLAIM_ANY, 0.0, 1.0, Answer::Unknown).of(None).by(7).claim(1.0, 2.0, "b", 2);
    any.with(CLAIM_ANY, 3.0, 40.0, granted("a", 1)).by(7).keeps(NAME);
}

#[test]
fn a_gap_is_found_where_nobody_else_claims() {
    let story = || HistoryBuilder::new().claim(0.0, 1.0, "a", 5).release(1.0, 2.0, "a").claim(2.0, 3.0, "b", 7);
    story().breaks(NAME, "load-0 went from fencing 5 to 7", 2);
    story().among_others().keeps(NAME);
    story().with(CLAIM, 1.0, 2.0, Answer::Unknown).keeps(NAME);
    story().with(Request::ForceClaim, 1.0, 2.0, Answer::Unknown).keeps(NAME);
    story().with(CLAIM_ANY, 1.0, 2.0, Answer::Unknown).of(None).keeps(NAME);
    story().with(CLAIM, 1.0, 2.0, Answer::Unknown).of(Some(1)).breaks(NAME, "from fencing 5 to 7", 2);
}

#[test]
fn only_the_first_few_are_told_and_all_are_counted() {
    let story = (0..8).fold(HistoryBuilder::new(), |story, number| {
        let sent = f64::from(number);
        let session = format!("s{number}");
        story.claim(sent, sent + 0.1, &session, 100 - u64::from(number as u32)).release(
            sent + 0.1,
            sent + 0.2,
            &session,
        )
    });
    let check = story.check(NAME);
    assert_eq!((check.examined, check.violation_count, check.violations.len()), (7, 7, 5), "{check:#?}");
}
