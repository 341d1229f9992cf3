//! The sessions of a period, and how busy environments were in it.

#![allow(clippy::unwrap_used)]

use super::*;
use domain::Period;

const SECOND: i64 = 1_000;

impl Bench {
    /// Begins a session at this second of the wall clock and ends it at another.
    async fn held(&self, key: &EnvironmentKey, who: u8, from: i64, to: i64) {
        self.wall.store(from * SECOND, Ordering::Relaxed);
        let session = claim_at_once(&self.environments, key, claim(who)).await.unwrap();
        self.wall.store(to * SECOND, Ordering::Relaxed);
        self.release_in(key, &session).await.unwrap();
    }

    /// The numbers of the sessions between two seconds, newest first, and the total.
    fn within(&self, from: i64, to: i64, offset: u64, limit: u64) -> (Vec<u64>, u64) {
        let environment = self.environments.environment(&key()).unwrap().unwrap();
        let found = self.environments.history_within(&key(), &environment, seconds(from, to), offset, limit);
        let found = found.unwrap().unwrap();
        (found.items.iter().map(token).collect(), found.total)
    }
}

fn seconds(from: i64, to: i64) -> Period {
    Period { from: Timestamp::from_millis(from * SECOND), to: Timestamp::from_millis(to * SECOND) }
}

#[actix::test]
async fn a_history_of_a_period_has_the_sessions_that_had_the_lock_in_it() {
    let bench = Bench::with_environment().await;
    // More than are read at once; session n from second 10 n to 10 n + 5.
    for number in 1..=300 {
        bench.held(&key(), 1, 10 * number, 10 * number + 5).await;
    }
    assert_eq!(bench.within(0, 9_999, 0, 2), (vec![300, 299], 300));
    assert_eq!(bench.within(0, 9_999, 299, 2), (vec![1], 300));
    assert_eq!(bench.within(2_996, 9_999, 0, 9), (vec![300], 1));
    assert_eq!(bench.within(1_003, 1_022, 0, 9), (vec![102, 101, 100], 3), "also those that had begun or go on");
    assert_eq!(bench.within(1_003, 1_022, 1, 1), (vec![101], 3));
    assert_eq!(bench.within(1_006, 1_009, 0, 9), (vec![], 0));
    assert_eq!(bench.within(0, 10, 0, 9), (vec![], 0), "it begins when the period has ended");
    bench.wall.store(4_000 * SECOND, Ordering::Relaxed);
    bench.claim(1).await.unwrap();
    assert_eq!(bench.within(5_000, 6_000, 0, 9), (vec![301], 1), "the present one has no end yet");
}

#[actix::test]
async fn utilisation_counts_every_environment_of_the_pipelines_asked_for() {
    let bench = Bench::with_environment().await;
    for name in ["review-2", "review-3"] {
        bench.configure(&named(name), Configuration::default()).await;
    }
    bench.held(&key(), 1, 100, 160).await;
    bench.held(&key(), 2, 200, 230).await;
    bench.held(&named("review-2"), 1, 300, 310).await;
    let found = bench.environments.utilisation(&[pipeline()], seconds(130, 3_000)).unwrap();
    let figures = found.utilisation.environments.iter();
    let figures: Vec<_> =
        figures.map(|used| (used.key.name.to_string(), used.sessions, used.locked_millis / SECOND)).collect();
    let expected = [("review-1", 2, 60), ("review-2", 1, 10), ("review-3", 0, 0)];
    assert_eq!(figures, expected.map(|(name, sessions, seconds)| (name.to_owned(), sessions, seconds)));
    let holders = found.utilisation.holders(9);
    let holders: Vec<_> = holders.iter().map(|holder| (holder.user.id, holder.locked_millis / SECOND)).collect();
    assert_eq!((holders, found.truncated), (vec![(person(1).id, 40), (person(2).id, 30)], false));
    let none = bench.environments.utilisation(&[], seconds(0, 3_000)).unwrap();
    assert!(none.utilisation.environments.is_empty() && !none.truncated);
}
