//! A thousand jobs wait for five environments, by name and for any, in a queue.

use tokio::sync::watch;

use super::fleet::{ENVIRONMENTS, Fleet, Wants};
use super::job::{Hold, Job, gate};
use super::record::Moment;

const JOBS: usize = 1_000;
/// The jobs with known places in the queue, which start sequentially.
const IN_ORDER: usize = 100;
/// Of every ten of them, these wait for any environment.
const ANY_OF_TEN: [usize; 3] = [2, 5, 6];

#[tokio::test]
async fn a_thousand_jobs_wait_for_five_environments_and_each_has_its_turn() {
    let fleet = Fleet::start().await;
    let (open, opened) = watch::channel(false);
    let mut running = gate(&fleet, &opened).await;

    let (mut first_queue, mut pool) = (0, 0);
    for number in 0..IN_ORDER {
        let any = ANY_OF_TEN.contains(&(number % 10));
        let job = Job::new(&fleet, if any { Wants::Any } else { Wants::Named(0) }, Hold::of(number));
        let id = job.id;
        running.push(job.start().await);
        if any {
            pool += 1;
            fleet.until_pool_is(pool).await;
        } else {
            first_queue += 1;
            fleet.until_queue_is(0, first_queue).await;
        }
        fleet.record.note(id, Moment::Queued);
    }

    // Half of the others arrive before the first lock is released, the rest while the queue moves.
    let early = IN_ORDER..IN_ORDER.midpoint(JOBS);
    let mut queues = vec![0; ENVIRONMENTS];
    queues[0] = first_queue;
    let mut ids = Vec::new();
    for number in early.clone() {
        match Wants::of(number) {
            Wants::Named(environment) => queues[environment] += 1,
            Wants::Any => pool += 1,
        }
        let job = Job::new(&fleet, Wants::of(number), Hold::of(number));
        ids.push(job.id);
        running.push(job.start().await);
    }
    for (environment, length) in queues.into_iter().enumerate() {
        fleet.until_queue_is(environment, length).await;
    }
    fleet.until_pool_is(pool).await;
    ids.into_iter().for_each(|id| fleet.record.note(id, Moment::Queued));
    open.send_replace(true);
    for number in early.end..JOBS {
        running.push(Job::new(&fleet, Wants::of(number), Hold::of(number)).start().await);
    }
    for job in running {
        job.await.unwrap();
    }
    let story = fleet.check().await;
    let served: Vec<_> = story.histories.iter().map(|history| history.sessions.len()).collect();
    println!("{JOBS} jobs and the {ENVIRONMENTS} that held them up were served, in each environment: {served:?}");
    assert_eq!(served.iter().sum::<usize>(), JOBS + ENVIRONMENTS);
}
