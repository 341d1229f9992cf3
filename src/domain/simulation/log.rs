//! The guarantees of the store: batches have one order, and a crash leaves a prefix that contains everything durable.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::{Environment, Labels, Queue, Session, SessionId, Ticket, Waiter};

pub type Key = u64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitsFor {
    Environment(usize),
    Pool(Arc<Labels>),
}

/// The grant of an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    pub environment: usize,
    pub session: SessionId,
}

/// Changes that become durable together.
#[derive(Debug, Default)]
pub struct Batch {
    pub environment: Option<(usize, Environment)>,
    pub arrived: Option<(WaitsFor, Arc<Waiter>)>,
    pub gone: Vec<Ticket>,
    pub ended: Vec<Arc<Session>>,
    pub answer: Option<(Key, Grant)>,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        let Self { environment, arrived, gone, ended, answer } = self;
        environment.is_none() && arrived.is_none() && gone.is_empty() && ended.is_empty() && answer.is_none()
    }
}

/// The state that the server reads when it starts.
#[derive(Debug, Clone)]
pub struct Stored {
    pub environments: Vec<Environment>,
    /// Per environment: the boot of the machine in which it was written.
    pub boots: Vec<u64>,
    pub waiting: BTreeMap<Ticket, (WaitsFor, Arc<Waiter>)>,
    pub ended: BTreeMap<SessionId, Arc<Session>>,
    pub answers: BTreeMap<Key, Grant>,
    /// The highest ticket ever stored, so that no ticket is used twice.
    pub last_ticket: u64,
}

impl Stored {
    fn apply(&mut self, batch: Batch, boot: u64) {
        if let Some((index, environment)) = batch.environment {
            self.environments[index] = environment;
            self.boots[index] = boot;
        }
        if let Some((place, waiter)) = batch.arrived {
            self.last_ticket = self.last_ticket.max(waiter.ticket.0);
            self.waiting.insert(waiter.ticket, (place, waiter));
        }
        for ticket in batch.gone {
            self.waiting.remove(&ticket);
        }
        self.ended.extend(batch.ended.into_iter().map(|session| (session.id, session)));
        self.answers.extend(batch.answer);
    }
}

pub struct Log {
    /// The durable state.
    pub stored: Stored,
    under_way: VecDeque<Batch>,
    durable: usize,
    /// The current boot of the machine.
    pub boot: u64,
}

impl Log {
    pub fn new(environments: usize) -> Self {
        let stored = Stored {
            environments: vec![Environment::absent(); environments],
            boots: vec![0; environments],
            waiting: BTreeMap::new(),
            ended: BTreeMap::new(),
            answers: BTreeMap::new(),
            last_ticket: 0,
        };
        Self { stored, under_way: VecDeque::new(), durable: 0, boot: 0 }
    }

    /// Returns the batch's position: the batch is durable when that many batches are.
    pub fn hand_in(&mut self, mut batch: Batch) -> usize {
        if let Some((_, environment)) = &mut batch.environment {
            environment.queue = Queue::new();
        }
        self.under_way.push_back(batch);
        self.handed_in()
    }

    pub fn handed_in(&self) -> usize {
        self.durable + self.under_way.len()
    }

    pub fn durable(&self) -> usize {
        self.durable
    }

    /// The next `count` batches become durable.
    pub fn settle(&mut self, count: usize) {
        for batch in self.under_way.drain(..count) {
            self.stored.apply(batch, self.boot);
        }
        self.durable += count;
    }

    /// The next `survive` batches have reached the disk, although that was not reported; the others are lost.
    pub fn crash(&mut self, survive: usize) {
        self.settle(survive);
        self.under_way.clear();
    }
}
