//! Places to be acquired, awaited if need be, and given back by dropping them.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::capacity::{Capacity, Refused};
use super::meter::ShareMeter;
use super::turns::Turns;
use crate::domain::Identifier;

/// Those who left their place to another organization, and hold on to something (a thread) until they get one again.
const PAUSED_MAX: usize = 32;

/// The places of one resource. Cheap to clone.
#[derive(Clone)]
pub struct Places(Arc<Shared>);

struct Shared {
    meter: ShareMeter,
    state: Mutex<State>,
}

struct State {
    turns: Turns<Waiter>,
    next_waiter: u64,
    paused: usize,
}

/// The number of a waiter, and how it is told.
struct Waiter {
    number: u64,
    place: oneshot::Sender<Place>,
}

/// A place, given back when it is dropped.
pub struct Place {
    shared: Arc<Shared>,
    organization: Identifier,
    /// It has been left to another organization.
    is_given_back: bool,
}

/// What [`Place::pause`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// Nobody else was waiting.
    NotNeeded,
    /// Another organization had its turn.
    Taken,
}

impl Places {
    /// `places` at a time; those who wait are in a queue of their own capacity.
    pub fn new(resource: &'static str, places: Capacity, queue: Capacity) -> Self {
        let state = State { turns: Turns::new(places, queue), next_waiter: 0, paused: 0 };
        Self(Arc::new(Shared { meter: ShareMeter::new(resource, places), state: Mutex::new(state) }))
    }

    /// Places that nobody waits for.
    pub fn without_queue(resource: &'static str, places: Capacity) -> Self {
        Self::new(resource, places, Capacity::turns(0))
    }

    /// A place at once, or a refusal.
    pub fn try_acquire(&self, organization: &Identifier) -> Result<Place, Refused> {
        let taken = self.0.state.lock().take(&self.0.meter, organization);
        match taken {
            Ok(()) => Ok(self.0.place(organization)),
            Err(refused) => Err(self.0.refuse(organization, refused)),
        }
    }

    /// Waits for a place; refused at once if too many wait already. If the future is dropped, nothing is left of it.
    pub async fn acquire(&self, organization: &Identifier) -> Result<Place, Refused> {
        let (place, granted) = oneshot::channel();
        let waits = self.0.state.lock().wait(organization, place);
        let number = waits.map_err(|refused| self.0.refuse(organization, refused))?;
        let mut waiting = Waiting { shared: &self.0, organization, number: Some(number), granted };
        self.0.grant();
        let place = (&mut waiting.granted).await;
        waiting.number = None;
        // Only the waiter itself withdraws, so there is an answer.
        place.map_err(|_| Refused::Full { total: 0 })
    }

    /// How many places are taken.
    pub fn used(&self) -> usize {
        self.0.state.lock().turns.used()
    }

    /// How many wait for a place.
    pub fn waiting(&self) -> usize {
        self.0.state.lock().turns.waiting()
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").field("used", &self.used()).field("waiting", &self.waiting()).finish()
    }
}

impl State {
    fn wait(&mut self, organization: &Identifier, place: oneshot::Sender<Place>) -> Result<u64, Refused> {
        self.next_waiter += 1;
        let number = self.next_waiter;
        self.turns.wait(organization, Waiter { number, place }).map(|()| number)
    }

    fn take(&mut self, meter: &ShareMeter, organization: &Identifier) -> Result<(), Refused> {
        self.turns.take(organization)?;
        meter.used(organization, self.turns.used_by(organization));
        Ok(())
    }

    fn next(&mut self, meter: &ShareMeter) -> Option<(Identifier, Waiter)> {
        let (organization, waiter) = self.turns.next_turn()?;
        meter.used(&organization, self.turns.used_by(&organization));
        Some((organization, waiter))
    }

    fn done(&mut self, meter: &ShareMeter, organization: &Identifier) {
        self.turns.done(organization);
        meter.used(organization, self.turns.used_by(organization));
    }
}

impl Shared {
    fn place(self: &Arc<Self>, organization: &Identifier) -> Place {
        Place { shared: self.clone(), organization: organization.clone(), is_given_back: false }
    }

    /// Gives the free places to those whose turn it is.
    fn grant(self: &Arc<Self>) {
        loop {
            let Some((organization, waiter)) = self.state.lock().next(&self.meter) else { return };
            // Without the lock: if the waiter is gone, its place is dropped, which gives it to the next one.
            waiter.place.send(self.place(&organization)).ok();
        }
    }

    fn refuse(&self, organization: &Identifier, refused: Refused) -> Refused {
        self.meter.refused(organization);
        refused
    }
}

impl Place {
    /// For long work on a thread that may block, now and then: if another organization waits and has fewer places, it gets
    /// this one, and the thread waits for its next turn.
    pub fn pause(&mut self) -> Pause {
        let (place, granted) = oneshot::channel();
        {
            let mut state = self.shared.state.lock();
            if state.paused >= PAUSED_MAX || !state.turns.should_give_way(&self.organization) {
                return Pause::NotNeeded;
            }
            state.paused += 1;
            // A paused waiter is never withdrawn, so it needs no number.
            state.turns.give_way(&self.organization, Waiter { number: 0, place });
        }
        self.is_given_back = true;
        self.shared.grant();
        let again = granted.blocking_recv();
        self.shared.state.lock().paused -= 1;
        if let Ok(again) = again {
            *self = again;
        }
        Pause::Taken
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_given_back {
            return;
        }
        self.shared.state.lock().done(&self.shared.meter, &self.organization);
        self.shared.grant();
    }
}

/// A waiter that withdraws when it is dropped. If its turn has come meanwhile, its place is dropped with `granted`.
struct Waiting<'a> {
    shared: &'a Arc<Shared>,
    organization: &'a Identifier,
    /// `None` once it has its place.
    number: Option<u64>,
    granted: oneshot::Receiver<Place>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.shared.state.lock().turns.withdraw(self.organization, |waiter| waiter.number == number);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use proptest::prelude::*;

    use super::*;

    fn organization(name: &str) -> Identifier {
        Identifier::parse(name).unwrap()
    }

    fn places(total: usize, queue: usize) -> Places {
        Places::new("test", Capacity::turns(total), Capacity::turns(queue))
    }

    #[tokio::test]
    async fn an_organization_that_fills_everything_leaves_a_place_and_a_turn_to_another() {
        let (busy, quiet) = (organization("busy"), organization("quiet"));
        let places = places(4, 100);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(places.acquire(&busy).now_or_never().unwrap().unwrap());
        }
        let mut crowd: Vec<_> = (0..50).map(|_| Box::pin(places.acquire(&busy))).collect();
        assert!(crowd.iter_mut().all(|waiter| waiter.as_mut().now_or_never().is_none()));
        let first = places.acquire(&quiet).now_or_never().expect("a place is kept for others").unwrap();
        let mut second = Box::pin(places.acquire(&quiet));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.as_mut().now_or_never().unwrap().is_ok(), "before the fifty");
    }

    #[tokio::test]
    async fn those_beyond_the_bound_are_refused() {
        let (busy, quiet) = (organization("busy"), organization("quiet"));
        let places = places(1, 2);
        let first = places.acquire(&busy).await.unwrap();
        let mut second = Box::pin(places.acquire(&busy));
        assert!(second.as_mut().now_or_never().is_none());
        assert_eq!(places.acquire(&busy).await.err(), Some(Refused::Share { own: 1 }));
        let mut other = Box::pin(places.acquire(&quiet));
        assert!(other.as_mut().now_or_never().is_none(), "the last place in the queue is for another organization");
        assert_eq!(places.acquire(&organization("third")).await.err(), Some(Refused::Full { total: 2 }));
        drop(first);
        assert!(other.await.is_ok(), "it is the turn of the one that had none");
        assert!(second.await.is_ok());
        assert_eq!((places.used(), places.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn a_dropped_waiter_leaves_no_trace_whenever_it_is_dropped() {
        let acme = organization("acme");
        let places = places(1, 100);
        let first = places.acquire(&acme).await.unwrap();
        let mut waiters: Vec<_> = (0..3).map(|_| Box::pin(places.acquire(&acme))).collect();
        waiters.iter_mut().for_each(|waiter| assert!(waiter.as_mut().now_or_never().is_none()));
        drop(waiters.remove(0));
        assert_eq!(places.waiting(), 2, "dropped while it waits");
        drop(first);
        // Its turn has come, and nobody has looked yet.
        drop(waiters.remove(0));
        assert!(waiters.remove(0).now_or_never().unwrap().is_ok(), "the place went on to the last one");
        assert_eq!((places.used(), places.waiting()), (0, 0));
    }

    #[test]
    fn long_work_lets_another_organization_go_first_and_then_goes_on() {
        let (long, short) = (organization("long"), organization("short"));
        let places = places(1, 100);
        let mut working = places.acquire(&long).now_or_never().unwrap().unwrap();
        assert_eq!(working.pause(), Pause::NotNeeded);
        let mut same = Box::pin(places.acquire(&long));
        assert!(same.as_mut().now_or_never().is_none());
        assert_eq!(working.pause(), Pause::NotNeeded, "its own organization waits");
        let mut other = Box::pin(places.acquire(&short));
        assert!(other.as_mut().now_or_never().is_none());
        let thread = std::thread::spawn(move || (working.pause(), working));
        let given = awaited(other);
        drop(given);
        let (pause, working) = thread.join().unwrap();
        assert_eq!(pause, Pause::Taken);
        assert!(same.as_mut().now_or_never().is_none(), "it goes on before the others of its organization");
        drop(working);
        assert!(same.now_or_never().unwrap().is_ok());
        assert_eq!((places.used(), places.waiting()), (0, 0));
    }

    /// Awaits a place that another thread makes free.
    fn awaited(waiting: impl Future<Output = Result<Place, Refused>>) -> Place {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(waiting).unwrap()
    }

    #[test]
    fn under_load_from_all_sides_no_wake_up_is_lost() {
        let places = places(3, 10_000);
        let client = async |number: usize| {
            let of = organization(&format!("org-{}", number % 7));
            for round in 0..50 {
                // Every third one gives up at once.
                if (number + round).is_multiple_of(3) {
                    drop(places.acquire(&of).now_or_never());
                } else {
                    let _place = places.acquire(&of).await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
        };
        let client = &client;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    runtime.block_on(join_all((0..50).map(|number| client(thread * 50 + number))));
                });
            }
        });
        assert_eq!((places.used(), places.waiting()), (0, 0));
    }

    proptest! {
        /// Places and waiters dropped in any order: never more than there are, and nothing is left.
        #[test]
        fn whatever_is_dropped_first_the_bounds_hold(
            total in 1..5_usize,
            steps in proptest::collection::vec((0..4_usize, any::<usize>()), 0..60),
        ) {
            let places = Places::new("test", Capacity::turns(total), Capacity::turns(8));
            let names = ["a", "b", "c"].map(organization);
            let (mut waiting, mut held) = (Vec::new(), Vec::new());
            for (action, which) in steps {
                match action {
                    0 | 1 => waiting.push(Box::pin(places.acquire(&names[which % 3]))),
                    2 if !waiting.is_empty() => drop(waiting.swap_remove(which % waiting.len())),
                    3 if !held.is_empty() => drop(held.swap_remove(which % held.len())),
                    _ => {}
                }
                let mut still = Vec::new();
                for mut waiter in waiting {
                    match waiter.as_mut().now_or_never() {
                        None => still.push(waiter),
                        Some(Ok(place)) => held.push(place),
                        Some(Err(_)) => {}
                    }
                }
                waiting = still;
                prop_assert!(held.len() <= total && held.len() <= places.used() && places.used() <= total);
            }
            drop(waiting);
            held.clear();
            prop_assert_eq!((places.used(), places.waiting()), (0, 0));
        }
    }
}
