//! Answers that wait for the disk. Each thread that runs actors has one queue of answers, in the order of the log, and
//! one task that is woken once per group of commits, however many answers the group settles.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, watch};

use store::{Sequence, Store};

pub struct Settlements {
    id: u64,
    store: Arc<dyn Store>,
}

type Settle = Box<dyn FnOnce()>;

struct Queue {
    waiting: RefCell<VecDeque<(Sequence, Settle)>>,
    arrived: Notify,
}

thread_local! {
    /// The queues of this thread, by the id of their `Settlements`. The task owns its queue, so a queue ends with its
    /// runtime.
    static QUEUES: RefCell<Vec<(u64, Weak<Queue>)>> = const { RefCell::new(Vec::new()) };
}

impl Settlements {
    pub fn new(store: Arc<dyn Store>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), store }
    }

    /// Runs `settle` on this thread when the log is durable up to `sequence`, after everything this thread queued
    /// before. A thread hands in its batches with rising sequences, so no sorting is needed.
    pub fn when_durable(&self, sequence: Sequence, settle: Settle) {
        let queue = self.queue_of_this_thread();
        queue.waiting.borrow_mut().push_back((sequence, settle));
        queue.arrived.notify_one();
    }

    fn queue_of_this_thread(&self) -> Rc<Queue> {
        QUEUES.with_borrow_mut(|queues| {
            let known = queues.iter().find(|(id, _)| *id == self.id).and_then(|(_, queue)| queue.upgrade());
            known.unwrap_or_else(|| {
                queues.retain(|(_, queue)| queue.strong_count() > 0);
                let queue = Rc::new(Queue { waiting: RefCell::default(), arrived: Notify::new() });
                queues.push((self.id, Rc::downgrade(&queue)));
                actix::spawn(settle_in_order(queue.clone(), self.store.durable()));
                queue
            })
        })
    }
}

async fn settle_in_order(queue: Rc<Queue>, mut durable: watch::Receiver<Sequence>) {
    loop {
        let reached = *durable.borrow_and_update();
        while let Some(settle) = queue.next_within(reached) {
            settle();
        }
        if queue.waiting.borrow().is_empty() {
            queue.arrived.notified().await;
        } else if durable.changed().await.is_err() {
            return;
        }
    }
}

impl Queue {
    fn next_within(&self, reached: Sequence) -> Option<Settle> {
        self.waiting.borrow_mut().pop_front_if(|(sequence, _)| *sequence <= reached).map(|(_, settle)| settle)
    }
}
