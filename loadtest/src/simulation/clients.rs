//! Decides the next request of a simulated client with jobs: it claims, uses its lock for a while, and releases it, or
//! retries an unanswered request.

use super::server::Wish;
use crate::linearizability::history::{Answer, Claim, Moment, Request, Session};
use crate::random::Random;

/// A tenth of a second: short compared to a lease, long compared to clock error.
pub const TICK: Moment = 100_000_000;

pub struct JobClient {
    jobs: u64,
    actions: u64,
    holds: Option<(usize, Session)>,
    is_leased: bool,
    /// Sessions that the client has held before.
    known: Vec<(usize, Session)>,
    again: Option<Wish>,
    keys: u32,
}

impl JobClient {
    pub fn new(number: u32, jobs: u64) -> Self {
        let (holds, is_leased) = (None, false);
        Self { jobs, actions: 0, holds, is_leased, known: Vec::new(), again: None, keys: number * 1_000 }
    }

    pub fn next(&mut self, random: &mut Random, environments: u64) -> Option<Wish> {
        if let Some(again) = self.again.take() {
            return Some(again);
        }
        if let Some((environment, session)) = self.holds {
            if self.actions > 0 {
                self.actions -= 1;
                let request = match random.below(4) {
                    0 | 1 => Request::Heartbeat(session),
                    2 => Request::ReadEnvironment,
                    _ => Request::ReadSession(session),
                };
                return Some(Wish { deploys: random.percent(50), ..plain(environment, request) });
            }
            let abandons = random.one_in(if self.is_leased { 4 } else { 64 });
            self.holds = None;
            if !abandons {
                return Some(plain(environment, Request::Release(session)));
            }
        }
        self.jobs = self.jobs.checked_sub(1)?;
        Some(self.job(random, environments))
    }

    fn job(&mut self, random: &mut Random, environments: u64) -> Wish {
        let environment = random.below(environments) as usize;
        let ttl = (!random.one_in(3)).then(|| TICK * (20 + random.below(100)));
        self.keys += 1;
        let key = random.percent(50).then_some(self.keys);
        let waiting = Claim { wait: TICK * random.within(100..400), ttl, key, ..Claim::default() };
        match (random.below(12), random.one_of(&self.known)) {
            (0..6, _) => plain(environment, Request::Claim(waiting)),
            (6, _) => plain(environment, Request::Claim(Claim { ttl, ..Claim::default() })),
            (7, _) => Wish { environment: None, ..plain(0, Request::Claim(waiting)) },
            (8, _) => plain(environment, Request::ForceClaim { ttl: None, key: None }),
            (10.., Some((environment, session))) => plain(environment, Request::ReadSession(session)),
            (_, _) => plain(environment, Request::ReadEnvironment),
        }
    }

    /// Handles an answer, or a missing one.
    pub fn told(&mut self, wish: &Wish, environment: Option<usize>, answer: &Answer, random: &mut Random) {
        let releases = matches!(wish.request, Request::Release(_));
        match (answer, environment) {
            (Answer::Granted { lock, .. }, Some(environment)) => {
                self.is_leased = matches!(wish.request, Request::Claim(Claim { ttl: Some(_), .. }));
                self.known.push((environment, lock.session));
                self.holds = Some((environment, lock.session));
                self.actions = random.below(5);
            }
            (Answer::Unknown, _) if wish.request.key().is_some() => self.again = Some(wish.clone()),
            (Answer::Unknown, _) if releases => self.again = (!random.one_in(4)).then(|| wish.clone()),
            (Answer::NothingDone, _) if releases => self.again = Some(wish.clone()),
            _ => {}
        }
    }
}

fn plain(environment: usize, request: Request) -> Wish {
    Wish { environment: Some(environment), request, deploys: false }
}
