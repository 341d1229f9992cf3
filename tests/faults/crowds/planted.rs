//! Each check finds its kind of fault, planted in an otherwise correct story.

use super::checks::{
    check, everybody_is_served_once, nobody_comes_back_from_the_dead, nobody_overtakes, one_holder_at_a_time,
    the_history_is_what_the_clients_saw, tokens_rise_by_one,
};
use jiff::Timestamp;

use super::record::{Entry, Fate, Grant, History, Job, JobId, Moment, Past, Story};

const ONE: &str = "crowd-1";
const TWO: &str = "crowd-2";

#[test]
fn a_story_with_nothing_wrong_passes() {
    check(&right());
    let mut story = right();
    for fate in [Fate::LeftUnserved, Fate::CutOff] {
        let job = claims(&mut story, fate);
        is_cut_off(&mut story, job);
    }
    let told = claims(&mut story, Fate::CutOff);
    holds(&mut story, told, TWO);
    remember(&mut story, told, TWO, "ttl");
    is_cut_off(&mut story, told);
    let on_its_way = claims(&mut story, Fate::CutOff);
    remember(&mut story, on_its_way, TWO, "ttl");
    is_cut_off(&mut story, on_its_way);
    let too_late = claims(&mut story, Fate::CutOff);
    is_cut_off(&mut story, too_late);
    remember(&mut story, too_late, TWO, "vanished");
    check(&story);
}

#[test]
fn one_that_is_not_served_is_found() {
    let mut story = right();
    let job = claims(&mut story, Fate::Served);
    assert_found(everybody_is_served_once(&story), "0 grants", &[job]);
    note(&mut story, job, Moment::Refused("409".to_owned()));
    assert_found(everybody_is_served_once(&story), "1 refusals", &[job]);
}

#[test]
fn one_that_is_served_twice_is_found() {
    let mut story = right();
    let job = served(&mut story, ONE);
    remember(&mut story, job, TWO, "");
    assert_found(the_history_is_what_the_clients_saw(&story), "two sessions", &[job]);
    holds(&mut story, job, TWO);
    note(&mut story, job, Moment::Releases);
    assert_found(everybody_is_served_once(&story), "2 grants, 2 releases", &[job]);
}

#[test]
fn two_holders_at_once_are_found() {
    let mut story = right();
    let [first, second] = [claims(&mut story, Fate::Served), claims(&mut story, Fate::Served)];
    holds(&mut story, first, ONE);
    holds(&mut story, second, TWO);
    assert_eq!(one_holder_at_a_time(&story), Ok(()), "each has its own");
    let third = claims(&mut story, Fate::Served);
    holds(&mut story, third, ONE);
    note(&mut story, first, Moment::Releases);
    note(&mut story, third, Moment::Releases);
    assert_found(one_holder_at_a_time(&story), "crowd-1 has two holders", &[first, third]);
}

#[test]
fn a_token_that_is_given_twice_skipped_or_falls_is_found() {
    for wrong in [2, 4, 1] {
        let mut story = right();
        let token = story.histories[0].sessions.len() as u64;
        assert_eq!(token, 2);
        let job = served(&mut story, ONE);
        story.histories[0].sessions[2].token = wrong;
        assert_found(tokens_rise_by_one(&story), "does not follow", &[job]);
    }
    for wrong in [2, 1] {
        let mut story = right();
        let job = served(&mut story, ONE);
        let told = story.entries.iter_mut().find_map(|entry| match &mut entry.moment {
            Moment::Holds(grant) if entry.job == job => Some(grant),
            _ => None,
        });
        told.unwrap().token = wrong;
        assert_found(tokens_rise_by_one(&story), "was held under token 2 before", &[job]);
        assert_found(the_history_is_what_the_clients_saw(&story), "nobody was told", &[job]);
    }
}

#[test]
fn a_history_that_does_not_begin_at_one_is_found() {
    let mut story = right();
    let lost = story.histories[0].sessions.remove(0).job;
    assert_found(tokens_rise_by_one(&story), "does not follow", &[]);
    assert_found(the_history_is_what_the_clients_saw(&story), "in no history", &[lost]);
}

#[test]
fn a_session_that_nobody_had_is_found() {
    let mut story = right();
    remember(&mut story, 77, ONE, "");
    assert_found(the_history_is_what_the_clients_saw(&story), "no job", &[77]);
    let mut story = right();
    let job = claims(&mut story, Fate::Served);
    remember(&mut story, job, ONE, "");
    assert_found(the_history_is_what_the_clients_saw(&story), "nobody was told", &[job]);
}

#[test]
fn a_session_that_ended_otherwise_than_by_its_release_is_found() {
    let mut story = right();
    let job = story.histories[0].sessions[1].job;
    "expired".clone_into(&mut story.histories[0].sessions[1].status);
    assert_found(the_history_is_what_the_clients_saw(&story), "did not end by its release", &[job]);
}

#[test]
fn one_that_overtakes_is_found() {
    let mut story = right();
    let patient = claims(&mut story, Fate::Served);
    note(&mut story, patient, Moment::Queued);
    let later = claims(&mut story, Fate::Served);
    note(&mut story, later, Moment::Queued);
    let between = claims(&mut story, Fate::Served);
    let turns = [later, between, patient];
    for (environment, in_turn) in [(ONE, [patient, later, between]), (ONE, [patient, between, later])] {
        let mut story = story.clone();
        in_turn.into_iter().for_each(|job| has_turn(&mut story, job, environment));
        let outcome = nobody_overtakes(&story);
        assert_eq!(outcome.is_ok(), in_turn == [patient, later, between], "{outcome:?}");
    }
    turns.into_iter().for_each(|job| has_turn(&mut story, job, ONE));
    assert_found(nobody_overtakes(&story), "in crowd-1", &[patient]);
}

#[test]
fn whoever_came_at_the_same_time_or_got_another_environment_overtook_nobody() {
    let mut story = right();
    let [first, second] = [claims(&mut story, Fate::Served), claims(&mut story, Fate::Served)];
    note(&mut story, first, Moment::Queued);
    note(&mut story, second, Moment::Queued);
    has_turn(&mut story, second, ONE);
    has_turn(&mut story, first, ONE);
    let patient = claims(&mut story, Fate::Served);
    note(&mut story, patient, Moment::Queued);
    let other = claims(&mut story, Fate::Served);
    has_turn(&mut story, other, TWO);
    has_turn(&mut story, patient, ONE);
    check(&story);
}

#[test]
fn a_ghost_that_holds_a_lock_is_found() {
    for (fate, reason) in
        [(Fate::CutOff, ""), (Fate::CutOff, "max_hold"), (Fate::CutOff, "ttl"), (Fate::LeftUnserved, "vanished")]
    {
        let mut story = right();
        let job = claims(&mut story, fate);
        is_cut_off(&mut story, job);
        remember(&mut story, job, ONE, reason);
        assert_found(nobody_comes_back_from_the_dead(&story), "must not have", &[job]);
    }
    let mut story = right();
    let job = claims(&mut story, Fate::CutOff);
    holds(&mut story, job, ONE);
    remember(&mut story, job, ONE, "vanished");
    is_cut_off(&mut story, job);
    assert_found(nobody_comes_back_from_the_dead(&story), "must not have", &[job]);
}

/// Two environments with two jobs each, served sequentially.
fn right() -> Story {
    let histories = [ONE, TWO].map(|name| History { environment: name.to_owned(), sessions: Vec::new() });
    let mut story = Story { histories: histories.into(), ..Story::default() };
    for environment in [ONE, TWO, ONE, TWO] {
        served(&mut story, environment);
    }
    story
}

fn served(story: &mut Story, environment: &str) -> JobId {
    let job = claims(story, Fate::Served);
    has_turn(story, job, environment);
    job
}

fn claims(story: &mut Story, fate: Fate) -> JobId {
    let job = story.jobs.len();
    story.jobs.push(Job { request: format!("POST /planted/{job}"), fate });
    note(story, job, Moment::Claims);
    job
}

fn has_turn(story: &mut Story, job: JobId, environment: &str) {
    holds(story, job, environment);
    note(story, job, Moment::Releases);
    remember(story, job, environment, "");
}

/// The job receives a grant, which is added to the history next.
fn holds(story: &mut Story, job: JobId, environment: &str) {
    let token = history(story, environment).sessions.len() as u64 + 1;
    let grant = Grant { environment: environment.to_owned(), session: session(job), token };
    note(story, job, Moment::Holds(grant));
}

/// At the time of its entry in the story.
fn is_cut_off(story: &mut Story, job: JobId) {
    let now = time(story);
    note(story, job, Moment::CutOff(now));
}

/// Each entry advances it.
fn time(story: &Story) -> Timestamp {
    Timestamp::from_second(story.entries.len() as i64).unwrap()
}

/// The job holds the lock from now on; the session ends for a reason, or without one by its release.
fn remember(story: &mut Story, job: JobId, environment: &str, reason: &str) {
    let claimed_at = time(story);
    let history = history(story, environment);
    let token = history.sessions.len() as u64 + 1;
    let (status, reason) = if reason.is_empty() { ("released", None) } else { ("expired", Some(reason.to_owned())) };
    history.sessions.push(Past { job, token, session: session(job), claimed_at, status: status.to_owned(), reason });
}

fn note(story: &mut Story, job: JobId, moment: Moment) {
    story.entries.push(Entry { job, moment });
}

fn history<'a>(story: &'a mut Story, environment: &str) -> &'a mut History {
    story.histories.iter_mut().find(|history| history.environment == environment).unwrap()
}

fn session(job: JobId) -> String {
    format!("ses_{job}")
}

/// Checks that a fault is reported, with the entries of these jobs.
#[track_caller]
fn assert_found(found: Result<(), String>, what: &str, jobs: &[JobId]) {
    let found = found.expect_err("nothing was found");
    assert!(found.contains(what), "{found}");
    for job in jobs {
        assert!(found.contains(&format!("  job-{job}: ")), "{found}");
    }
}
