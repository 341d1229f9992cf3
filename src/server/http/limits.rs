//! Limits on client requests. Lists and logs are the most expensive reads, so the number of concurrent ones is bounded,
//! with a share for each organization. A bounded number of further reads waits, and the rest is refused. A long list
//! read lets other organizations go first between two pieces. This file also has the rate limit per token.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use actix_web::http::header::HeaderName;
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use tokio::runtime::Handle;

use super::codes::Code;
use super::problem::Problem;
use domain::{Holder, Identifier, TokenId};
use shares::{Capacity, Paces, Permit, Permits, time_of_this_thread};

/// Reads that may wait: enough for a fleet that starts simultaneously, and no more than can be read within seconds.
const WAITING_MAX: usize = 4_096;
/// Concurrent reads: one per core, since more would only take CPU time from claims and each other; at least two, so
/// that a second organization gets a permit.
static AT_ONCE: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2)));

pub struct Scans {
    places: Permits,
    what: &'static str,
    paces: Arc<Paces>,
}

impl Scans {
    /// The limit for reads of lists, on a server with this many organizations.
    pub fn of_lists(organizations: usize) -> Self {
        Self::new("list_reads", "lists", *AT_ONCE, organizations)
    }

    /// The limit for reads of logs, which do not wait for lists.
    pub fn of_logs(organizations: usize) -> Self {
        Self::new("log_reads", "logs", *AT_ONCE, organizations)
    }

    fn new(resource: &'static str, what: &'static str, at_once: usize, organizations: usize) -> Self {
        let paces = Arc::new(Paces::among(organizations));
        let (at_once, waiting) = (Capacity::turns(at_once), Capacity::turns(WAITING_MAX));
        let places = Permits::new(resource, at_once.among(organizations), waiting.among(organizations));
        Self { places, what, paces }
    }

    /// Runs a long read for an organization on a thread that may block. `holder` is the requesting member, if any. If
    /// the organization has read much recently, others go first. The permit is held until the read has really ended,
    /// even if the caller has gone; then the read stops after its current piece. After excessive reading, the permit is
    /// held for an additional pause, so that other organizations find most processors free.
    pub async fn read<T: Send + 'static, E: Send + 'static>(
        &self,
        organization: &Identifier,
        holder: Option<Holder>,
        read: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem>
    where
        Problem: From<E>,
    {
        let place = self.places.acquire_for(organization, holder).await;
        let place = place
            .map_err(|refused| Problem::overloaded(&format!("too many {} are being read: {refused}", self.what)))?;
        let stands_back = self.paces.is_busy(organization);
        let mut place = RestingPlace {
            place: Some(place),
            began: None,
            organization: organization.clone(),
            paces: self.paces.clone(),
            on: Handle::current(),
        };
        let caller = Caller::default();
        let gone = caller.gone.clone();
        let read = move || {
            place.began = Some(time_of_this_thread());
            let between_pieces = move || {
                if let Some(place) = &mut place.place {
                    place.pause();
                }
                if gone.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            store::in_pieces(between_pieces, read)
        };
        let read = if stands_back { shares::read_later(read).await } else { shares::read(read).await };
        Ok(read.map_err(Problem::internal)??)
    }
}

/// A permit that outlives its read by a pause of limited length if the organization reads too much.
struct RestingPlace {
    place: Option<Permit>,
    /// When the read began, by the clock of the reading thread; `None` until then.
    began: Option<Duration>,
    organization: Identifier,
    paces: Arc<Paces>,
    on: Handle,
}

impl Drop for RestingPlace {
    fn drop(&mut self) {
        let (place, Some(began)) = (self.place.take(), self.began) else { return };
        let took = time_of_this_thread().saturating_sub(began);
        // This thread belongs to another runtime. Use the caller's clock, which a test may have paused.
        let _entered = self.on.enter();
        if let Some(rest) = self.paces.note(&self.organization, took) {
            tokio::spawn(async move {
                tokio::time::sleep(rest).await;
                drop(place);
            });
        }
    }
}

/// Sets the flag when dropped, which happens when the caller has gone or the read has ended.
#[derive(Default)]
struct Caller {
    gone: Arc<AtomicBool>,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Relaxed);
    }
}

pub struct RateLimits {
    limiter: RateLimiter<TokenId, DashMapStateStore<TokenId>, DefaultClock>,
    clock: DefaultClock,
    per_second: NonZeroU32,
    burst: NonZeroU32,
}

impl RateLimits {
    pub fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let quota = Quota::per_second(per_second).allow_burst(burst);
        Self { limiter: RateLimiter::dashmap(quota), clock: DefaultClock::default(), per_second, burst }
    }

    pub fn check(&self, token: TokenId) -> Result<(), Problem> {
        let Err(not_until) = self.limiter.check_key(&token) else {
            return Ok(());
        };
        let wait = not_until.wait_time_from(self.clock.now());
        // Rounded up to whole seconds, since an earlier retry would be refused again.
        let seconds = wait.as_secs() + u64::from(wait > Duration::from_secs(wait.as_secs()));
        let window = u64::from(self.burst.get()).div_ceil(u64::from(self.per_second.get())).max(1);
        let detail = format!("the token may make {} requests per second; try again in {seconds} s", self.per_second);
        Err(Problem::new(Code::RateLimited, detail)
            .retry_after(seconds.max(1))
            .with_header(HeaderName::from_static("ratelimit"), &format!("\"token\";r=0;t={}", seconds.max(1)))
            .with_header(
                HeaderName::from_static("ratelimit-policy"),
                &format!("\"token\";q={};w={window}", self.burst),
            ))
    }

    /// Drops the state of tokens whose full rate is available again.
    pub fn forget_idle(&self) {
        self.limiter.retain_recent();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::mpsc;

    use actix_web::web;

    use super::*;
    use crate::http::codes::Code;
    use store::{Batch, MemoryStore, Store, StoreError, for_each};

    fn organization(name: &str) -> Identifier {
        Identifier::parse(name).unwrap()
    }

    fn scans(at_once: usize) -> Arc<Scans> {
        Arc::new(Scans::new("test", "lists", at_once, 2))
    }

    /// A store with three pieces of pairs.
    fn store() -> Arc<MemoryStore> {
        let store = Arc::new(MemoryStore::new());
        for number in 0..1_200_u32 {
            let mut batch = Batch::default();
            batch.put(number.to_be_bytes(), Vec::new());
            store.commit(batch).unwrap();
        }
        store
    }

    #[actix::test]
    async fn while_one_organization_reads_all_it_can_another_reads_at_once() {
        let (scans, busy) = (scans(2), organization("busy"));
        let (end, ended) = mpsc::channel::<()>();
        let long = {
            let (scans, busy) = (scans.clone(), busy.clone());
            actix_web::rt::spawn(async move {
                scans.read(&busy, None, move || Ok::<_, StoreError>(ended.recv())).await.map(drop)
            })
        };
        while scans.places.used() == 0 {
            tokio::task::yield_now().await;
        }
        let crowd: Vec<_> = (0..100)
            .map(|_| {
                let (scans, busy) = (scans.clone(), busy.clone());
                actix_web::rt::spawn(async move { scans.read(&busy, None, || Ok::<_, StoreError>(())).await })
            })
            .collect();
        while scans.places.waiting() < 100 {
            tokio::task::yield_now().await;
        }
        scans.read(&organization("quiet"), None, || Ok::<_, StoreError>(())).await.unwrap();
        assert_eq!(scans.places.waiting(), 100, "it did not wait for the others");
        end.send(()).unwrap();
        long.await.unwrap().unwrap();
        for waiting in crowd {
            waiting.await.unwrap().unwrap();
        }
    }

    #[actix::test]
    async fn a_long_read_lets_another_organization_go_first_between_two_pieces() {
        let (scans, store) = (scans(1), store());
        let (tell, progress) = mpsc::channel::<&str>();
        let (go_on, wait) = mpsc::channel::<()>();
        let long = {
            let (scans, tell) = (scans.clone(), tell.clone());
            actix_web::rt::spawn(async move {
                let mut seen = 0;
                let read = move || {
                    for_each(&*store, b"", |_, _| {
                        seen += 1;
                        if seen == 1 {
                            tell.send("begun").unwrap();
                            wait.recv().unwrap();
                        }
                        Ok(())
                    })?;
                    tell.send("long").unwrap();
                    Ok::<_, StoreError>(seen)
                };
                scans.read(&organization("long"), None, read).await
            })
        };
        let begun = web::block(move || (progress.recv().unwrap(), progress)).await.unwrap();
        let short = {
            let scans = scans.clone();
            let read = move || {
                tell.send("short").unwrap();
                Ok::<_, StoreError>(())
            };
            actix_web::rt::spawn(async move { scans.read(&organization("short"), None, read).await })
        };
        while scans.places.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        go_on.send(()).unwrap();
        assert_eq!(long.await.unwrap().unwrap(), 1_200);
        short.await.unwrap().unwrap();
        assert_eq!(begun.1.iter().take(2).collect::<Vec<_>>(), ["short", "long"]);
    }

    #[actix::test]
    async fn an_abandoned_read_keeps_its_place_until_it_ends_and_ends_with_its_piece() {
        let (scans, store, acme) = (scans(1), store(), organization("acme"));
        let (go_on, wait) = mpsc::channel::<()>();
        let (tell, told) = tokio::sync::oneshot::channel();
        let mut tell = Some(tell);
        let seen = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = seen.clone();
        let read = move || {
            for_each(&*store, b"", |_, _| {
                counted.fetch_add(1, Ordering::SeqCst);
                if let Some(tell) = tell.take() {
                    tell.send(()).unwrap();
                    wait.recv().unwrap();
                }
                Ok(())
            })
        };
        let abandoned = scans.read(&acme, None, read);
        tokio::select! {
            _ = abandoned => panic!("it waits to go on"),
            told = told => told.unwrap(),
        }
        assert_eq!(scans.places.used(), 1, "its thread is still reading");
        go_on.send(()).unwrap();
        scans.read(&acme, None, || Ok::<_, StoreError>(())).await.unwrap();
        assert_eq!(seen.load(Ordering::SeqCst), 512, "of 1200");
    }

    #[tokio::test(start_paused = true)]
    async fn after_too_much_its_place_rests() {
        let (scans, acme) = (scans(1), organization("acme"));
        // Far ahead of all unpaused clocks, so that the test notices a read that uses one.
        tokio::time::advance(Duration::from_secs(3_600)).await;
        while scans.paces.note(&acme, Duration::from_millis(1)).is_none() {}
        // A running blocking task keeps the paused clock from advancing.
        let (end, ended) = mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || ended.recv());
        let reads_for_a_moment = || {
            let began = time_of_this_thread();
            while time_of_this_thread() == began {
                std::hint::spin_loop();
            }
            Ok::<_, StoreError>(())
        };
        scans.read(&acme, None, reads_for_a_moment).await.unwrap();
        assert_eq!(scans.places.used(), 1);
        assert!(scans.paces.is_busy(&acme), "it has rested by another clock");
        drop(end);
        busy.await.unwrap().unwrap_err();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(scans.places.used(), 0);
    }

    #[actix::test]
    async fn a_refusal_says_whose_bound_it_is() {
        let scans = Scans {
            places: Permits::without_queue("test", Capacity::turns(1)),
            what: "lists",
            paces: Arc::new(Paces::among(1)),
        };
        let problem = scans.read(&organization("acme"), None, || Ok::<_, StoreError>(())).await.unwrap_err();
        assert_eq!(problem.code(), Code::Overloaded);
        assert!(problem.to_string().contains("all 0 of this server are in use"), "{problem}");
    }
}
