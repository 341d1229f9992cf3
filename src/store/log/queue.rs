//! The bounded queue of batches waiting for the disk: added under a short lock, collected into groups.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::format::{FULL_GROUP_BYTES, MAX_BATCH_BYTES};
use crate::batch::{Batch, BatchPosition, BatchRef, Sequence};
use crate::contract::StoreError;

/// About a tenth of a second of writes to a slow disk; callers are refused beyond it.
pub const MAX_QUEUED_BYTES: usize = 8 * 1024 * 1024;
/// One group is collected while another is written; more buffers would never be used.
const KEPT_BUFFERS: usize = 2;

#[derive(Default)]
pub struct Queue {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    groups: VecDeque<Group>,
    buffers: Vec<Group>,
    /// Bytes of batches that are not durable yet, including those being written.
    bytes: usize,
    last: u64,
    committer_waits: bool,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Drain,
    Abandon,
}

/// The outcome of waiting for a group.
pub enum Taken {
    Group(Group),
    /// No batch was added within the limit.
    Nothing,
    /// The queue is closed and empty.
    Closed,
}

/// Batches that become durable together.
#[derive(Default)]
pub struct Group {
    pub first: u64,
    pub payload: Vec<u8>,
    places: Vec<BatchPosition>,
}

impl Group {
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn batches(&self) -> impl Iterator<Item = BatchRef<'_>> {
        self.places.iter().map(|place| place.of(&self.payload))
    }
}

impl Queue {
    pub fn starting_after(last: u64) -> Queue {
        let queue = Queue::default();
        queue.state.lock().last = last;
        queue
    }

    pub fn push(&self, batch: Batch) -> Result<Sequence, StoreError> {
        let bytes = batch.encoded_len();
        if bytes > MAX_BATCH_BYTES {
            return Err(StoreError::BatchTooLarge { bytes, limit: MAX_BATCH_BYTES });
        }
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.end.is_some() {
            return Err(StoreError::Closed);
        }
        if state.bytes + bytes > MAX_QUEUED_BYTES {
            return Err(StoreError::Overloaded);
        }
        state.last += 1;
        state.bytes += bytes;
        let sequence = state.last;
        if state.groups.back().is_none_or(|group| group.payload.len() + bytes > FULL_GROUP_BYTES) {
            let mut group = state.buffers.pop().unwrap_or_default();
            group.first = sequence;
            state.groups.push_back(group);
        }
        if let Some(group) = state.groups.back_mut() {
            group.places.push(batch.encode(&mut group.payload));
        }
        let wake = std::mem::take(&mut state.committer_waits);
        drop(guard);
        if wake {
            self.work.notify_one();
        }
        batch.leave_room();
        Ok(Sequence(sequence))
    }

    pub fn last(&self) -> Sequence {
        Sequence(self.state.lock().last)
    }

    /// Waits for the next group; `None` when the queue is closed and empty.
    pub fn take(&self) -> Option<Group> {
        loop {
            match self.take_by(None) {
                Taken::Group(group) => return Some(group),
                Taken::Closed => return None,
                Taken::Nothing => {}
            }
        }
    }

    /// Waits at most this long for the next group.
    pub fn take_within(&self, limit: Duration) -> Taken {
        self.take_by(Some(Instant::now() + limit))
    }

    fn take_by(&self, limit: Option<Instant>) -> Taken {
        let mut state = self.state.lock();
        loop {
            if state.end == Some(End::Abandon) {
                return Taken::Closed;
            }
            if let Some(group) = state.groups.pop_front() {
                return Taken::Group(group);
            }
            if state.end.is_some() {
                return Taken::Closed;
            }
            state.committer_waits = true;
            match limit {
                None => self.work.wait(&mut state),
                Some(limit) if self.work.wait_until(&mut state, limit).timed_out() && state.groups.is_empty() => {
                    return Taken::Nothing;
                }
                Some(_) => {}
            }
        }
    }

    /// Called when the group is durable: its bytes no longer count, and its buffers are reused.
    pub fn finish(&self, mut group: Group) {
        let mut state = self.state.lock();
        state.bytes -= group.payload.len();
        if state.buffers.len() < KEPT_BUFFERS {
            group.payload.clear();
            group.places.clear();
            state.buffers.push(group);
        }
    }

    /// Accepts no more batches; those already queued are still written.
    pub fn close(&self) {
        self.end(End::Drain);
    }

    /// Accepts no more batches and writes none: non-durable batches are lost, as after a crash.
    pub fn abandon(&self) {
        self.end(End::Abandon);
    }

    fn end(&self, end: End) {
        self.state.lock().end = Some(end);
        self.work.notify_one();
    }
}
