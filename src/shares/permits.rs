//! Permits, acquired with waiting if necessary, and returned on drop.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::capacity::{Capacity, ShareError};
use super::meter::ShareMeter;
use super::turns::Turns;
use domain::{Holder, Identifier, MemberShare, NoShare, UserId};

/// The limit of holders that gave their permit to another organization, and block a thread until they get one again.
const PAUSED_MAX: usize = 32;

/// The permits of one resource. Cheap to clone.
#[derive(Clone)]
pub struct Permits(Arc<Shared>);

struct Shared {
    meter: ShareMeter,
    state: Mutex<State>,
}

struct State {
    turns: Turns<Waiter>,
    /// The permits of each member, and the number of their waiting requests. Members with none are not in the maps.
    held: MemberCounts,
    waiting: MemberCounts,
    next_waiter: u64,
    paused: usize,
}

/// The number of a waiter, and the channel that notifies it.
struct Waiter {
    number: u64,
    member: Option<UserId>,
    permit: oneshot::Sender<Permit>,
}

/// A permit, returned on drop.
pub struct Permit {
    shared: Arc<Shared>,
    organization: Identifier,
    member: Option<UserId>,
    /// Whether the permit has been given to another organization.
    is_given_back: bool,
}

impl Permits {
    /// `permits` is the number of concurrent holders; `queue` limits the waiters.
    pub fn new(resource: &'static str, permits: Capacity, queue: Capacity) -> Self {
        let (held, waiting) = (MemberCounts::default(), MemberCounts::default());
        let state = State { turns: Turns::new(permits, queue), held, waiting, next_waiter: 0, paused: 0 };
        Self(Arc::new(Shared { meter: ShareMeter::new(resource, permits), state: Mutex::new(state) }))
    }

    /// Permits without a queue.
    pub fn without_queue(resource: &'static str, permits: Capacity) -> Self {
        Self::new(resource, permits, Capacity::turns(0))
    }

    /// Returns a permit immediately, or a refusal.
    pub fn try_acquire(&self, organization: &Identifier) -> Result<Permit, ShareError> {
        self.try_acquire_for(organization, None)
    }

    /// Like [`Self::try_acquire`], for a member, who has a share of the organization's permits.
    pub fn try_acquire_for(&self, organization: &Identifier, holder: Option<Holder>) -> Result<Permit, ShareError> {
        let taken = self.0.state.lock().take(&self.0.meter, organization, holder);
        match taken {
            Ok(()) => Ok(self.0.permit(organization, holder.map(|holder| holder.member))),
            Err(refused) => Err(self.0.refuse(organization, refused)),
        }
    }

    /// Waits for a permit; refused immediately if too many wait already. Cancel-safe.
    pub async fn acquire(&self, organization: &Identifier) -> Result<Permit, ShareError> {
        self.acquire_for(organization, None).await
    }

    /// Like [`Self::acquire`], for a member, who has a share of the organization's queue.
    pub async fn acquire_for(&self, organization: &Identifier, holder: Option<Holder>) -> Result<Permit, ShareError> {
        let (permit, granted) = oneshot::channel();
        let waits = self.0.state.lock().wait(organization, holder, permit);
        let number = waits.map_err(|refused| self.0.refuse(organization, refused))?;
        let mut waiting = Waiting { shared: &self.0, organization, number: Some(number), granted };
        self.0.grant();
        let permit = (&mut waiting.granted).await;
        waiting.number = None;
        // Only the waiter itself withdraws, so the sender is never dropped unused.
        permit.map_err(|_| ShareError::Full { total: 0 })
    }

    /// The number of taken permits.
    pub fn used(&self) -> usize {
        self.0.state.lock().turns.used()
    }

    /// The number of waiters.
    pub fn waiting(&self) -> usize {
        self.0.state.lock().turns.waiting()
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits").field("used", &self.used()).field("waiting", &self.waiting()).finish()
    }
}

impl State {
    fn wait(
        &mut self,
        organization: &Identifier,
        holder: Option<Holder>,
        permit: oneshot::Sender<Permit>,
    ) -> Result<u64, ShareError> {
        self.waiting.check(holder, self.turns.queue_of(organization))?;
        self.next_waiter += 1;
        let (number, member) = (self.next_waiter, holder.map(|holder| holder.member));
        self.turns.wait(organization, Waiter { number, member, permit })?;
        self.waiting.add(member);
        Ok(number)
    }

    fn take(
        &mut self,
        meter: &ShareMeter,
        organization: &Identifier,
        holder: Option<Holder>,
    ) -> Result<(), ShareError> {
        self.held.check(holder, self.turns.share_of(organization))?;
        self.turns.take(organization)?;
        self.held.add(holder.map(|holder| holder.member));
        meter.used(organization, self.turns.used_by(organization));
        Ok(())
    }

    fn next(&mut self, meter: &ShareMeter) -> Option<(Identifier, Waiter)> {
        let (organization, waiter) = self.turns.next_turn()?;
        self.waiting.remove(waiter.member);
        self.held.add(waiter.member);
        meter.used(&organization, self.turns.used_by(&organization));
        Some((organization, waiter))
    }

    fn done(&mut self, meter: &ShareMeter, organization: &Identifier, member: Option<UserId>) {
        self.turns.done(organization);
        self.held.remove(member);
        meter.used(organization, self.turns.used_by(organization));
    }

    fn withdraw(&mut self, organization: &Identifier, number: u64) {
        if let Some(waiter) = self.turns.withdraw(organization, |waiter| waiter.number == number) {
            self.waiting.remove(waiter.member);
        }
    }
}

impl Shared {
    fn permit(self: &Arc<Self>, organization: &Identifier, member: Option<UserId>) -> Permit {
        Permit { shared: self.clone(), organization: organization.clone(), member, is_given_back: false }
    }

    /// Gives free permits to the next waiters.
    fn grant(self: &Arc<Self>) {
        loop {
            let Some((organization, waiter)) = self.state.lock().next(&self.meter) else { return };
            // Sent without the lock: if the waiter is gone, its permit is dropped, which passes it to the next one.
            waiter.permit.send(self.permit(&organization, waiter.member)).ok();
        }
    }

    fn refuse(&self, organization: &Identifier, refused: ShareError) -> ShareError {
        self.meter.refused(organization);
        refused
    }
}

impl Permit {
    /// Yields during long work on a blocking thread; call it regularly. If another organization is waiting and has
    /// fewer permits, it gets this one, and the thread waits for its next turn. Returns whether that happened.
    pub fn pause(&mut self) -> bool {
        let (permit, granted) = oneshot::channel();
        {
            let mut state = self.shared.state.lock();
            if state.paused >= PAUSED_MAX || !state.turns.should_give_way(&self.organization) {
                return false;
            }
            state.paused += 1;
            state.held.remove(self.member);
            state.waiting.add(self.member);
            // A paused waiter is never withdrawn, so it needs no number.
            state.turns.give_way(&self.organization, Waiter { number: 0, member: self.member, permit });
        }
        self.is_given_back = true;
        self.shared.grant();
        let again = granted.blocking_recv();
        self.shared.state.lock().paused -= 1;
        if let Ok(again) = again {
            *self = again;
        }
        true
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.is_given_back {
            return;
        }
        self.shared.state.lock().done(&self.shared.meter, &self.organization, self.member);
        self.shared.grant();
    }
}

/// The count of each member. Ids of members are unique across organizations.
#[derive(Default)]
struct MemberCounts(HashMap<UserId, usize>);

impl MemberCounts {
    /// `share` is the number of permits that the organization may have, and the number it has. A full organization is
    /// refused elsewhere, with a separate reason.
    fn check(&self, holder: Option<Holder>, (total, used): (usize, usize)) -> Result<(), ShareError> {
        let Some(Holder { member, is_admin }) = holder else { return Ok(()) };
        let own = || self.0.get(&member).copied().unwrap_or(0);
        match (MemberShare { total, used, is_admin }.check(own)) {
            Ok(()) | Err(NoShare::Full { .. }) => Ok(()),
            Err(refused) => Err(ShareError::Member(refused)),
        }
    }

    fn add(&mut self, member: Option<UserId>) {
        if let Some(member) = member {
            *self.0.entry(member).or_default() += 1;
        }
    }

    fn remove(&mut self, member: Option<UserId>) {
        let Some(member) = member else { return };
        match self.0.get_mut(&member) {
            Some(own) if *own > 1 => *own -= 1,
            Some(_) | None => _ = self.0.remove(&member),
        }
    }
}

/// A waiter that withdraws on drop. If it has been granted a permit meanwhile, the permit is dropped with `granted`.
struct Waiting<'a> {
    shared: &'a Arc<Shared>,
    organization: &'a Identifier,
    /// `None` once the waiter has its permit.
    number: Option<u64>,
    granted: oneshot::Receiver<Permit>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.shared.state.lock().withdraw(self.organization, number);
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
    use domain::IdSeed;

    fn organization(name: &str) -> Identifier {
        Identifier::parse(name).unwrap()
    }

    fn permits(total: usize, queue: usize) -> Permits {
        Permits::new("test", Capacity::turns(total), Capacity::turns(queue))
    }

    #[test]
    fn one_member_has_half_of_what_the_organization_may_have_and_an_admin_finds_one_to_the_last() {
        let (acme, beta) = (organization("acme"), organization("beta"));
        let member = |number: u8, is_admin| Some(Holder { member: UserId(IdSeed([number; 12])), is_admin });
        for (organizations, all) in [(1, 1_000), (2, 500)] {
            let permits = Permits::without_queue("test", Capacity::seats(1_000).among(organizations));
            let mut held = Vec::new();
            let mut take = |organization, holder| {
                let refused = loop {
                    match permits.try_acquire_for(organization, holder) {
                        Ok(permit) => held.push(permit),
                        Err(refused) => break refused,
                    }
                };
                (held.len(), refused)
            };
            let own = NoShare::Own { own: all / 2, total: all };
            assert_eq!(take(&acme, member(1, false)), (all / 2, ShareError::Member(own)));
            assert!(take(&acme, member(2, false)).0 > all / 2, "another member finds permits");
            for number in 3..100 {
                take(&acme, member(number, false));
            }
            let (before, refused) = take(&acme, member(100, false));
            assert_eq!(refused, ShareError::Member(NoShare::Kept { kept: all / 16, total: all }));
            assert!(take(&acme, member(101, true)).0 > before, "some are kept for admins");
            let of_another = permits.try_acquire_for(&beta, member(102, false));
            assert_eq!(of_another.is_ok(), organizations > 1, "another organization has its own");
            drop(of_another);
            held.clear();
            assert!(permits.0.state.lock().held.0.is_empty(), "whoever has none leaves no trace");
        }
    }

    #[tokio::test]
    async fn one_member_has_half_of_the_queue_and_gives_it_back() {
        let acme = organization("acme");
        let permits = Permits::new("test", Capacity::turns(1).among(1), Capacity::turns(100).among(1));
        let busy = Some(Holder { member: UserId(IdSeed([1; 12])), is_admin: false });
        let other = Some(Holder { member: UserId(IdSeed([2; 12])), is_admin: false });
        let first = permits.acquire_for(&acme, busy).await.unwrap();
        let mut crowd: Vec<_> = (0..50).map(|_| Box::pin(permits.acquire_for(&acme, busy))).collect();
        assert!(crowd.iter_mut().all(|waiter| waiter.as_mut().now_or_never().is_none()));
        let refused = permits.acquire_for(&acme, busy).await.err();
        assert_eq!(refused, Some(ShareError::Member(NoShare::Own { own: 50, total: 100 })));
        let mut waits = Box::pin(permits.acquire_for(&acme, other));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(crowd);
        drop(first);
        drop(waits.await.unwrap());
        let state = permits.0.state.lock();
        assert!(state.held.0.is_empty() && state.waiting.0.is_empty(), "whoever has none leaves no trace");
    }

    #[tokio::test]
    async fn an_organization_that_fills_everything_leaves_a_place_and_a_turn_to_another() {
        let (busy, quiet) = (organization("busy"), organization("quiet"));
        let permits = permits(4, 100);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(permits.acquire(&busy).now_or_never().unwrap().unwrap());
        }
        let mut crowd: Vec<_> = (0..50).map(|_| Box::pin(permits.acquire(&busy))).collect();
        assert!(crowd.iter_mut().all(|waiter| waiter.as_mut().now_or_never().is_none()));
        let first = permits.acquire(&quiet).now_or_never().expect("a permit is kept for others").unwrap();
        let mut second = Box::pin(permits.acquire(&quiet));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.as_mut().now_or_never().unwrap().is_ok(), "before the fifty");
    }

    #[tokio::test]
    async fn those_beyond_the_bound_are_refused() {
        let (busy, quiet) = (organization("busy"), organization("quiet"));
        let permits = permits(1, 2);
        let first = permits.acquire(&busy).await.unwrap();
        let mut second = Box::pin(permits.acquire(&busy));
        assert!(second.as_mut().now_or_never().is_none());
        assert_eq!(permits.acquire(&busy).await.err(), Some(ShareError::Share { own: 1 }));
        let mut other = Box::pin(permits.acquire(&quiet));
        assert!(other.as_mut().now_or_never().is_none(), "the last permit in the queue is for another organization");
        assert_eq!(permits.acquire(&organization("third")).await.err(), Some(ShareError::Full { total: 2 }));
        drop(first);
        assert!(other.await.is_ok(), "it is the turn of the one that had none");
        assert!(second.await.is_ok());
        assert_eq!((permits.used(), permits.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn a_dropped_waiter_leaves_no_trace_whenever_it_is_dropped() {
        let acme = organization("acme");
        let permits = permits(1, 100);
        let first = permits.acquire(&acme).await.unwrap();
        let mut waiters: Vec<_> = (0..3).map(|_| Box::pin(permits.acquire(&acme))).collect();
        waiters.iter_mut().for_each(|waiter| assert!(waiter.as_mut().now_or_never().is_none()));
        drop(waiters.remove(0));
        assert_eq!(permits.waiting(), 2, "dropped while it waits");
        drop(first);
        // The waiter was granted a permit, but has not polled yet.
        drop(waiters.remove(0));
        assert!(waiters.remove(0).now_or_never().unwrap().is_ok(), "the permit went on to the last one");
        assert_eq!((permits.used(), permits.waiting()), (0, 0));
    }

    #[test]
    fn long_work_lets_another_organization_go_first_and_then_goes_on() {
        let (long, short) = (organization("long"), organization("short"));
        let permits = permits(1, 100);
        let mut working = permits.acquire(&long).now_or_never().unwrap().unwrap();
        assert!(!working.pause());
        let mut same = Box::pin(permits.acquire(&long));
        assert!(same.as_mut().now_or_never().is_none());
        assert!(!working.pause(), "its own organization waits");
        let mut other = Box::pin(permits.acquire(&short));
        assert!(other.as_mut().now_or_never().is_none());
        let thread = std::thread::spawn(move || (working.pause(), working));
        let given = awaited(other);
        drop(given);
        let (has_paused, working) = thread.join().unwrap();
        assert!(has_paused);
        assert!(same.as_mut().now_or_never().is_none(), "it goes on before the others of its organization");
        drop(working);
        assert!(same.now_or_never().unwrap().is_ok());
        assert_eq!((permits.used(), permits.waiting()), (0, 0));
    }

    /// Waits for a permit that another thread frees.
    fn awaited(waiting: impl Future<Output = Result<Permit, ShareError>>) -> Permit {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(waiting).unwrap()
    }

    #[test]
    fn under_load_from_all_sides_no_wake_up_is_lost() {
        let permits = permits(3, 10_000);
        let client = async |number: usize| {
            let of = organization(&format!("org-{}", number % 7));
            for round in 0..50 {
                // Every third waiter gives up immediately.
                if (number + round).is_multiple_of(3) {
                    drop(permits.acquire(&of).now_or_never());
                } else {
                    let _place = permits.acquire(&of).await.unwrap();
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
        assert_eq!((permits.used(), permits.waiting()), (0, 0));
    }

    proptest! {
        /// Whatever the order in which permits and waiters are dropped, the limit holds and nothing is left.
        #[test]
        fn whatever_is_dropped_first_the_bounds_hold(
            total in 1..5_usize,
            steps in proptest::collection::vec((0..4_usize, any::<usize>()), 0..60),
        ) {
            let permits = Permits::new("test", Capacity::turns(total), Capacity::turns(8));
            let names = ["a", "b", "c"].map(organization);
            let (mut waiting, mut held) = (Vec::new(), Vec::new());
            for (action, which) in steps {
                match action {
                    0 | 1 => waiting.push(Box::pin(permits.acquire(&names[which % 3]))),
                    2 if !waiting.is_empty() => drop(waiting.swap_remove(which % waiting.len())),
                    3 if !held.is_empty() => drop(held.swap_remove(which % held.len())),
                    _ => {}
                }
                let mut still = Vec::new();
                for mut waiter in waiting {
                    match waiter.as_mut().now_or_never() {
                        None => still.push(waiter),
                        Some(Ok(permit)) => held.push(permit),
                        Some(Err(_)) => {}
                    }
                }
                waiting = still;
                prop_assert!(held.len() <= total && held.len() <= permits.used() && permits.used() <= total);
            }
            drop(waiting);
            held.clear();
            prop_assert_eq!((permits.used(), permits.waiting()), (0, 0));
        }
    }
}
