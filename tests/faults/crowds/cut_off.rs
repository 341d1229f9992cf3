//! Clients that disconnect at any moment: no other client waits for them, and no lock stays with them.

use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use super::fleet::{ENVIRONMENTS, Fleet, Wants};
use super::from_variable;
use super::job::{Cut, CutSignals, Hold, Job, gate};
use super::record::{Fate, JobId, Story};

const JOBS: usize = 1_000;
/// These arrive before the first lock is released, the others while the queue moves.
const EARLY: usize = JOBS / 2;
/// One in this many is disconnected.
const CUT_ONE_IN: usize = 10;
/// Two in three of the early disconnected ones leave before the first lock is released.
const BEFORE_OF_THREE: usize = 2;

#[tokio::test]
async fn clients_that_are_cut_off_hold_nothing_and_hold_nobody_up() {
    let mut luck = luck();
    let fleet = Fleet::start().await;
    let signals = Arc::new(CutSignals::default());
    let ((open, opened), (leave, told)) = (watch::channel(false), watch::channel(false));
    let mut running = gate(&fleet, &opened).await;

    let (mut queues, mut pool) = (vec![0; ENVIRONMENTS], 0);
    let mut leaving = Vec::new();
    for number in 0..EARLY {
        let cut = (number % CUT_ONE_IN == 0).then(|| match number / CUT_ONE_IN % 3 {
            0..BEFORE_OF_THREE => Cut::Told(told.clone()),
            _ => at_random(&mut luck),
        });
        let wants = wants(&mut luck, cut.as_ref());
        if let Some(Cut::Told(_)) = cut {
            leaving.push(wants);
        }
        match wants {
            Wants::Named(environment) => queues[environment] += 1,
            Wants::Any => pool += 1,
        }
        running.push(Job::with(&fleet, &signals, wants, Hold::of(number), cut).start().await);
    }
    until_waiting(&fleet, &queues, pool).await;
    for wants in &leaving {
        match wants {
            Wants::Named(environment) => queues[*environment] -= 1,
            Wants::Any => pool -= 1,
        }
    }
    leave.send_replace(true);
    until_waiting(&fleet, &queues, pool).await;
    open.send_replace(true);
    for number in EARLY..JOBS {
        let cut = (number % CUT_ONE_IN == 0).then(|| at_random(&mut luck));
        let wants = wants(&mut luck, cut.as_ref());
        running.push(Job::with(&fleet, &signals, wants, Hold::of(number), cut).start().await);
    }
    for job in running {
        job.await.unwrap();
    }
    let story = fleet.check().await;
    println!("{JOBS} jobs, {} cut off while nobody was served; {}", leaving.len(), outcome(&story));
}

/// Every second waiter closes its connection when the previous one releases its lock.
#[tokio::test]
async fn a_client_that_goes_at_the_moment_of_its_grant_does_not_take_the_lock_with_it() {
    const PAIRS: usize = 60;
    let mut luck = luck();
    let fleet = Fleet::start().await;
    let signals = Arc::new(CutSignals::default());
    let (open, opened) = watch::channel(false);
    let mut running = gate(&fleet, &opened).await;
    for place in 0..2 * PAIRS {
        for environment in 0..ENVIRONMENTS {
            let cut = (place % 2 == 1).then(|| at_grant(&mut luck));
            let job = Job::with(&fleet, &signals, Wants::Named(environment), Hold::Nothing, cut);
            running.push(job.start().await);
            fleet.until_queue_is(environment, place + 1).await;
        }
    }
    open.send_replace(true);
    for job in running {
        job.await.unwrap();
    }
    println!("{} pairs in line; {}", PAIRS * ENVIRONMENTS, outcome(&fleet.check().await));
}

fn luck() -> SmallRng {
    let seed = from_variable("LOCKKEEPER_TEST_SEED").unwrap_or_else(rand::random);
    println!("LOCKKEEPER_TEST_SEED={seed}");
    SmallRng::seed_from_u64(seed)
}

fn at_random(luck: &mut SmallRng) -> Cut {
    match luck.random_range(0..3) {
        0 => Cut::AfterReleases(luck.random_range(1..JOBS * 3 / 4)),
        1 => at_grant(luck),
        _ => Cut::Holding,
    }
}

fn at_grant(luck: &mut SmallRng) -> Cut {
    /// About the time in which a lock moves to the next holder.
    const MOMENTS_MAX: usize = 100;
    Cut::AtGrant(luck.random_range(0..MOMENTS_MAX))
}

/// The order of turns can only be observed for jobs that wait for one environment by name.
fn wants(luck: &mut SmallRng, cut: Option<&Cut>) -> Wants {
    match cut {
        Some(Cut::AtGrant(_)) => Wants::Named(luck.random_range(0..ENVIRONMENTS)),
        Some(Cut::Told(_) | Cut::AfterReleases(_) | Cut::Holding) | None => Wants::of(luck.random_range(0..JOBS)),
    }
}

async fn until_waiting(fleet: &Fleet, queues: &[usize], pool: usize) {
    for (environment, length) in queues.iter().enumerate() {
        fleet.until_queue_is(environment, *length).await;
    }
    fleet.until_pool_is(pool).await;
}

/// The outcomes of the other disconnected jobs.
fn outcome(story: &Story) -> String {
    let past = |job: JobId| story.histories.iter().flat_map(|history| &history.sessions).find(|past| past.job == job);
    let (mut unserved, mut vanished, mut expired) = (0, 0, 0);
    for (id, _) in story.jobs.iter().enumerate().filter(|(_, job)| job.fate == Fate::CutOff) {
        match past(id).map(|past| past.reason.as_deref()) {
            None => unserved += 1,
            Some(Some("vanished")) => vanished += 1,
            Some(_) => expired += 1,
        }
    }
    format!("of those cut off in line, {unserved} never got a lock, {vanished} could not be told, {expired} ran out")
}
