use crate::checks::tests::history_builder::{CLAIM, HistoryBuilder, name, refused};
use crate::checks::visibility::NAME;
use crate::history::SessionStatus::{Active, Ended, Overridden, Queued};
use crate::history::{Answer, Request};

/// One session from 1 s to 5 s.
fn held() -> HistoryBuilder {
    HistoryBuilder::new().claim(0.0, 1.0, "a", 4).release(5.0, 6.0, "a")
}

#[test]
fn an_old_token_is_found() {
    held().read(1.0, 2.0, Some("z"), 3).breaks(NAME, "load-0 showed fencing 3 after 4 was known", 2);
    held().read(7.0, 8.0, None, 3).breaks(NAME, "showed fencing 3", 2);
    held().read(7.0, 8.0, None, 3).audited().breaks(NAME, "showed fencing 3", 2);
}

#[test]
fn a_read_that_was_sent_before_the_answer_came_may_show_either() {
    held().read(0.9, 2.0, Some("z"), 3).says_nothing_about(NAME);
    held().read(0.9, 2.0, Some("a"), 4).keeps(NAME);
    held().read(1.0, 2.0, Some("a"), 4).keeps(NAME);
    held().read(5.9, 7.0, Some("a"), 4).keeps(NAME);
    held().read(7.0, 8.0, Some("b"), 5).keeps(NAME);
    // A free environment shows no token.
    held().read(7.0, 8.0, None, 0).says_nothing_about(NAME);
}

#[test]
fn a_token_that_was_shown_is_not_taken_back() {
    let story = || HistoryBuilder::new().read(0.0, 1.0, Some("x"), 9);
    story().read(1.0, 2.0, Some("y"), 8).breaks(NAME, "showed fencing 8 after 9", 2);
    story().read(0.9, 2.0, Some("y"), 8).says_nothing_about(NAME);
    story().claim(1.0, 2.0, "y", 9).breaks(NAME, "granted with fencing 9 after 9 had been shown", 2);
    story().claim(1.0, 2.0, "y", 10).keeps(NAME);
    story().claim(0.9, 2.0, "x", 9).keeps(NAME);
}

#[test]
fn a_holder_that_has_given_the_lock_back_is_found() {
    held().read(6.0, 7.0, Some("a"), 4).breaks(NAME, "load-0 showed a holder that had given it back", 2);
}

#[test]
fn a_holder_with_a_token_that_it_was_not_granted_is_found() {
    held().read(1.0, 2.0, Some("a"), 5).breaks(NAME, "load-0 showed a with fencing 5, which was granted 4", 2);
}

#[test]
fn a_holder_that_is_not_shown_is_found() {
    held().read(1.0, 5.0, None, 0).breaks(NAME, "load-0 did not show its holder a (fencing 4)", 2);
    held().read(1.0, 5.001, None, 0).says_nothing_about(NAME);
    held().force_claim(3.0, 4.0, "b", 5).read(1.5, 3.5, None, 0).says_nothing_about(NAME);
}

#[test]
fn a_session_that_comes_back_is_found() {
    held().read_session(6.0, 7.0, "a", Active, 4).breaks(NAME, "a was active after it had ended", 2);
    held().read_session(1.0, 2.0, "a", Queued, 0).breaks(NAME, "a was queued again", 2);
    let seen = || held().read_session(5.1, 5.2, "a", Ended, 4);
    seen().read_session(5.3, 5.4, "a", Active, 4).breaks(NAME, "after it had ended", 2);
    seen().read_session(5.3, 5.4, "a", Overridden, 4).breaks(NAME, "a was overridden after it was ended", 2);
    seen().read_session(5.15, 5.4, "a", Active, 4).keeps(NAME);
}

#[test]
fn a_session_whose_release_came_too_late_may_be_overridden() {
    held().force_claim(4.0, 4.5, "b", 5).read_session(7.0, 8.0, "a", Overridden, 4).keeps(NAME);
    held().read_session(7.0, 8.0, "a", Ended, 4).keeps(NAME);
    held().read_session(5.9, 8.0, "a", Active, 4).keeps(NAME);
}

#[test]
fn one_who_left_the_line_is_not_active_later() {
    let story = HistoryBuilder::new().release(1.0, 2.0, "q");
    story.read_session(2.0, 3.0, "q", Queued, 0).breaks(NAME, "q was queued again", 2);
}

#[test]
fn a_session_that_ends_while_it_certainly_holds_its_lock_is_found() {
    held().read_session(2.0, 3.0, "a", Ended, 4).breaks(NAME, "a was ended while it certainly held its lock", 2);
    let leased = || HistoryBuilder::new().claim_with_ttl(0.0, 1.0, 10.0, "a", 4);
    leased().read_session(12.0, 13.0, "a", Ended, 4).keeps(NAME);
    let beating = || leased().heartbeat(8.0, 9.0, "a");
    let check = beating().read_session(12.0, 13.0, "a", Ended, 4).check(NAME);
    assert_eq!((check.examined, check.violation_count), (2, 1), "{check:#?}");
    beating().read_session(18.0, 19.0, "a", Ended, 4).keeps(NAME);
}

#[test]
fn a_holder_that_is_refused_is_found() {
    let beat =
        |sent, ended, code| held().with(Request::Heartbeat { session: name("a") }, sent, ended, refused(409, code));
    beat(2.0, 3.0, "session_expired").breaks(NAME, "was told that it did not", 2);
    beat(4.9, 5.1, "session_released").keeps(NAME);
    beat(2.0, 3.0, "rate_limited").says_nothing_about(NAME);
}

#[test]
fn something_done_in_a_session_that_had_ended_is_found() {
    held().heartbeat(6.0, 7.0, "a").breaks(NAME, "a had ended, and something was done in it", 2);
    held().deploy(6.0, 7.0, "a").breaks(NAME, "a had ended", 2);
    held().heartbeat(5.9, 7.0, "a").keeps(NAME);
    // This may be the answer to the first deployment.
    let lost = held().with(Request::Deploy { session: name("a") }, 4.0, 4.5, Answer::Unknown);
    lost.deploy(6.0, 7.0, "a").keeps(NAME);
}

#[test]
fn a_deployment_that_is_missing_is_found() {
    let story = || held().deploy(2.0, 3.0, "a").deploy(3.0, 4.0, "a");
    story().read_deployments(4.0, 5.0, "a", (Active, 4, 1)).breaks(NAME, "a showed 1 deployments of at least 2", 2);
    story().read_deployments(3.9, 5.0, "a", (Active, 4, 1)).keeps(NAME);
    story().read_deployments(4.0, 5.0, "a", (Active, 4, 3)).keeps(NAME);
    let shown = story().read_deployments(4.0, 4.1, "a", (Active, 4, 3));
    shown.read_deployments(4.2, 4.3, "a", (Active, 4, 2)).breaks(NAME, "2 deployments of at least 3", 2);
}

#[test]
fn a_session_with_another_token_is_found() {
    held().read_session(1.0, 2.0, "a", Active, 5).breaks(NAME, "a showed fencing 5, and was granted 4", 2);
}

#[test]
fn a_session_that_is_gone_too_early_is_found() {
    let gone = |mut story: HistoryBuilder, retention: u64| {
        story.history.retention = retention;
        let read = Request::ReadSession { session: name("a") };
        story.with(read, 20.0, 21.0, refused(404, "session_not_found")).audited()
    };
    let story = || held().claim(7.0, 8.0, "b", 5).release(9.0, 9.5, "b").claim(10.0, 11.0, "c", 6);
    gone(story(), 3).breaks(NAME, "a (fencing 4) was not found", 2);
    gone(story(), 2).keeps(NAME);
    // Each unanswered claim may have had a session too.
    gone(story().with(CLAIM, 12.0, 13.0, Answer::Unknown), 3).keeps(NAME);
    gone(story().among_others(), 3).keeps(NAME);
    let release = Request::Release { session: name("a") };
    held().with(release, 7.0, 8.0, refused(404, "session_not_found")).breaks(NAME, "was not found", 2);
}
