//! Heartbeats: keeps the lease while the command runs, and gives the lock back at the end.

use std::time::Duration;

use reqwest::Method;
use tokio::sync::watch;

use super::alarm::Alarm;
use super::lease::{Lease, MARGIN};
use super::notice;
use crate::acquire::{Acquired, Fate, Session, fate, heartbeat};
use crate::api::{Api, Call};
use crate::failure::Failure;
use crate::output::note;
use crate::steady::Moment;

/// A lock that this client holds.
#[derive(Debug, Clone)]
pub struct Held<'a> {
    pub api: &'a Api,
    pub session: Session,
    pub lease: Lease,
}

impl<'a> Held<'a> {
    pub fn new(api: &'a Api, acquired: Acquired, ttl: Duration) -> Self {
        let lease = Lease::new(ttl, acquired.beat.sent, acquired.beat.left);
        Self { api, session: acquired.session, lease }
    }

    /// Renews the lease until it is lost, and says in words why it is. `until` hears of every renewal.
    pub async fn keep(self, alarm: Alarm, until: watch::Sender<Moment>) -> String {
        let noticed = notice::lost(self.api, self.session.clone());
        tokio::select! {
            words = self.renew(alarm, until) => words,
            words = noticed => words,
        }
    }

    async fn renew(mut self, alarm: Alarm, until: watch::Sender<Moment>) -> String {
        let mut trouble = String::new();
        loop {
            alarm.reached(self.lease.next_beat()).await;
            match heartbeat(self.api, &mut self.session, self.lease.answer_within()).await {
                Ok(beat) => {
                    if !trouble.is_empty() {
                        note("lockkeeper: the server answers again; the lock is still held");
                        trouble.clear();
                    }
                    self.lease.renewed(beat.sent, beat.left);
                    until.send_replace(self.lease.until());
                }
                Err(error) => match fate(error) {
                    Fate::Lost(words) => return words,
                    Fate::Unclear(words) => self.missed(words, &mut trouble),
                    // The lock is held until the end of the lease, and there may be another token by then.
                    Fate::Refused(failure) => self.missed(failure.to_string(), &mut trouble),
                },
            }
            if Moment::now() >= self.lease.until().minus(MARGIN) {
                return format!("the lock is lost: it could not be renewed in time: {trouble}");
            }
        }
    }

    fn missed(&mut self, words: String, trouble: &mut String) {
        if trouble.is_empty() {
            note(&format!("lockkeeper: the lock could not be renewed, trying again: {words}"));
        }
        *trouble = words;
        self.lease.unanswered(Moment::now());
    }

    /// Proves that the lock was held until now. Tries until the end of the lease.
    pub async fn confirm(&mut self) -> Result<(), Failure> {
        let alarm = Alarm::new().map_err(|error| Failure::Failed(error.to_string()))?;
        loop {
            let error = match heartbeat(self.api, &mut self.session, self.lease.answer_within()).await {
                Ok(beat) => {
                    self.lease.renewed(beat.sent, beat.left);
                    return Ok(());
                }
                Err(error) => error,
            };
            let words = match fate(error) {
                Fate::Lost(words) => return Err(Failure::LockLost(words)),
                Fate::Refused(failure) => return Err(failure),
                Fate::Unclear(words) => words,
            };
            self.lease.unanswered(Moment::now());
            if self.lease.next_beat() >= self.lease.until() {
                return Err(Failure::Unreachable(words));
            }
            alarm.reached(self.lease.next_beat()).await;
        }
    }

    /// For a lock that is probably lost already: once, and without a word.
    pub async fn release_briefly(&self) {
        let call = self.api.call(Method::DELETE, &self.session.path());
        self.api.send(Call { patience: Duration::ZERO, timeout: self.lease.answer_within(), ..call }).await.ok();
    }

    /// If that fails, the lease ends it.
    pub async fn release(&self) {
        let patience = self.lease.until().since(Moment::now());
        let call = self.api.call(Method::DELETE, &self.session.path());
        let call = Call { patience, timeout: self.lease.answer_within(), ..call };
        if let Err(error) = self.api.send(call).await {
            let words = Failure::from(error);
            note(&format!("lockkeeper: the lock could not be released and expires by itself: {words}"));
        }
    }
}
