use crate::checks::leaks::NAME;
use crate::checks::tests::history_builder::{CLAIM, CLAIM_ANY, HistoryBuilder, environment, name, waiting};
use crate::history::SessionStatus::Queued;
use crate::history::{Answer, Request};

fn held() -> HistoryBuilder {
    HistoryBuilder::new().claim(0.0, 1.0, "a", 4).release(5.0, 6.0, "a")
}

/// Adds a read long after the end of the run.
fn left(story: HistoryBuilder, holder: Option<&str>, fencing: u64) -> HistoryBuilder {
    story.read(1_000.0, 1_001.0, holder, fencing).audited()
}

#[test]
fn a_free_environment_is_no_leak() {
    left(held(), None, 0).keeps(NAME);
    left(held(), None, 4).keeps(NAME);
}

#[test]
fn a_lock_that_was_given_back_is_a_leak() {
    left(held(), Some("a"), 4).breaks(NAME, "load-0 is still held by a (fencing 4): it gave it back", 3);
}

#[test]
fn a_lock_that_its_client_never_gave_back_is_no_leak() {
    left(HistoryBuilder::new().claim(0.0, 1.0, "a", 4), Some("a"), 4).keeps(NAME);
    let lost = HistoryBuilder::new().claim(0.0, 1.0, "a", 4).with(
        Request::Release { session: name("a") },
        5.0,
        6.0,
        Answer::Unknown,
    );
    left(lost, Some("a"), 4).keeps(NAME);
}

#[test]
fn a_lock_whose_ttl_has_run_out_is_a_leak() {
    let story = |ttl| HistoryBuilder::new().claim_with_ttl(0.0, 1.0, ttl, "a", 4);
    left(story(10.0), Some("a"), 4).breaks(NAME, "its TTL has run out", 2);
    left(story(10.0).heartbeat(990.0, 991.0, "a"), Some("a"), 4).keeps(NAME);
    left(story(10.0).heartbeat(900.0, 901.0, "a"), Some("a"), 4).breaks(NAME, "its TTL has run out", 3);
    left(story(998.0), Some("a"), 4).keeps(NAME);
}

#[test]
fn those_in_line_are_a_leak_where_nobody_else_claims() {
    let waits =
        |story: HistoryBuilder| story.with(Request::ReadEnvironment, 100.0, 101.0, environment(None, 0, 2)).audited();
    waits(held()).breaks(NAME, "load-0 has 2 in line", 1);
    waits(held().among_others()).keeps(NAME);
    held().read_session(100.0, 101.0, "q", Queued, 0).audited().breaks(NAME, "somebody still waits for load-0", 1);
}

#[test]
fn a_lock_of_which_nobody_was_told_is_a_leak_if_everybody_was_answered() {
    left(held(), Some("ghost"), 5).breaks(NAME, "nobody was told of it", 1);
    left(held().among_others(), Some("ghost"), 5).keeps(NAME);
    left(held().with(CLAIM, 5.0, 6.0, Answer::Unknown).of(Some(1)), Some("ghost"), 5).breaks(
        NAME,
        "nobody was told",
        1,
    );
}

#[test]
fn a_lock_may_be_with_one_whose_answer_was_lost() {
    left(held().with(CLAIM, 5.0, 6.0, Answer::Unknown), Some("ghost"), 5).keeps(NAME);
    left(held().with(CLAIM_ANY, 5.0, 6.0, Answer::Unknown).of(None), Some("ghost"), 5).keeps(NAME);
    left(held().with(Request::ForceClaim, 5.0, 6.0, Answer::Unknown), Some("ghost"), 5).keeps(NAME);
    let leased = Request::Claim { any: false, in_line_at: None, ttl: Some(std::time::Duration::from_secs(60)) };
    left(held().with(leased, 5.0, 6.0, Answer::Unknown), Some("ghost"), 5).breaks(NAME, "nobody was told", 1);
}

#[test]
fn one_who_went_away_while_it_waited_gets_no_lock_afterwards() {
    let story = |gone| {
        let story = HistoryBuilder::new().claim(0.0, 1.0, "a", 4).with(waiting(2.0), 1.0, gone, Answer::Unknown);
        story.release(50.0, 50.1, "a")
    };
    left(story(40.0), Some("ghost"), 5).breaks(NAME, "nobody was told", 1);
    // The answer to the claim may have been in transit.
    left(story(49.0), Some("ghost"), 5).keeps(NAME);
    left(story(60.0), Some("ghost"), 5).keeps(NAME);
}
