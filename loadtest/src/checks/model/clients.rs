//! Owns what a client wants next: claims, uses its lock for a while, and gives it back, or sends again what got no
//! answer.

use std::time::Duration;

use super::server::Time;
use super::tape::Tape;
use crate::history::{Answer, Request, SessionName};

/// A tenth of a second: short beside a lease, long beside a clock's error.
pub const TICK: Time = 100_000_000;

pub struct Client {
    jobs: usize,
    actions: usize,
    holds: Option<Held>,
    /// What it read or had before.
    known: Vec<(usize, SessionName)>,
    again: Option<Wish>,
}

struct Held {
    environment: usize,
    session: SessionName,
    leased: bool,
}

#[derive(Clone)]
pub struct Wish {
    pub environment: Option<usize>,
    pub request: Request,
    /// Of a claim: whether it waits in line.
    pub waits: bool,
    /// Its idempotency key, if it was sent before or may be sent again.
    pub key: Option<usize>,
}

impl Client {
    pub fn new(jobs: usize) -> Self {
        Self { jobs, actions: 0, holds: None, known: Vec::new(), again: None }
    }

    pub fn wish(&mut self, tape: &mut Tape, environments: usize) -> Option<Wish> {
        if let Some(again) = self.again.take() {
            return Some(again);
        }
        if let Some(held) = &self.holds {
            let (environment, session) = (held.environment, held.session.clone());
            if self.actions > 0 {
                self.actions -= 1;
                let request = match tape.below(4) {
                    0 => Request::Heartbeat { session },
                    1 => Request::Deploy { session },
                    2 => Request::ReadEnvironment,
                    _ => Request::ReadSession { session },
                };
                return Some(plain(environment, request));
            }
            let abandons = tape.one_in(if held.leased { 4 } else { 64 });
            self.holds = None;
            if !abandons {
                return Some(plain(environment, Request::Release { session }));
            }
        }
        self.jobs = self.jobs.checked_sub(1)?;
        Some(self.job(tape, environments))
    }

    fn job(&mut self, tape: &mut Tape, environments: usize) -> Wish {
        let environment = tape.below(environments);
        let ttl = (!tape.one_in(3)).then(|| Duration::from_nanos(TICK * (20 + tape.below(100) as Time)));
        let claim = |any| Request::Claim { any, in_line_at: None, ttl };
        let key = tape.one_in(2).then_some(0);
        match tape.below(12) {
            0..6 => Wish { waits: true, key, ..plain(environment, claim(false)) },
            6 => plain(environment, claim(false)),
            7 => Wish { environment: None, request: claim(true), waits: true, key },
            8 => plain(environment, Request::ForceClaim),
            9 => plain(environment, Request::ReadEnvironment),
            _ if self.known.is_empty() => plain(environment, Request::ReadEnvironment),
            _ => {
                let (environment, session) = self.known[tape.below(self.known.len())].clone();
                plain(environment, Request::ReadSession { session })
            }
        }
    }

    /// What it makes of an answer, or of getting none.
    pub fn told(&mut self, wish: &Wish, environment: Option<usize>, answer: &Answer, tape: &mut Tape) {
        match (answer, environment) {
            (Answer::Granted { session, .. }, Some(environment)) => {
                let leased = matches!(wish.request, Request::Claim { ttl: Some(_), .. });
                self.known.push((environment, session.clone()));
                self.holds = Some(Held { environment, session: session.clone(), leased });
                self.actions = tape.below(5);
            }
            (Answer::Unknown, _) if wish.key.is_some() => self.again = Some(wish.clone()),
            (Answer::Unknown, _) if is_release(wish) => self.again = (!tape.one_in(4)).then(|| wish.clone()),
            (Answer::Refused { status: 503, .. }, _) if is_release(wish) => self.again = Some(wish.clone()),
            _ => {}
        }
    }
}

fn is_release(wish: &Wish) -> bool {
    matches!(wish.request, Request::Release { .. })
}

fn plain(environment: usize, request: Request) -> Wish {
    Wish { environment: Some(environment), request, waits: false, key: None }
}
