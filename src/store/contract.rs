//! The contract of every store, and helpers that depend only on it.

use std::cell::Cell;
use std::ops::ControlFlow;

use tokio::sync::watch;

use super::batch::{Batch, Pair, Sequence};

pub trait Store: Send + Sync + 'static {
    /// Queues a batch and returns its sequence immediately; the batch is durable when [`Store::durable`] has reached
    /// it. Later calls get higher sequences. After an error, nothing was queued.
    fn commit(&self, batch: Batch) -> Result<Sequence, StoreError>;

    /// The sequence up to which every batch survives a power cut. `get` and `scan` already show those batches.
    fn durable(&self) -> watch::Receiver<Sequence>;

    /// The sequence of the batch committed last, durable or not.
    fn handed_in(&self) -> Sequence;

    /// The sequence up to which the log is no longer needed. After a crash, later batches are replayed from the log,
    /// even if parts of them are already in the database.
    fn applied(&self) -> Sequence;

    /// Reads see all durable batches, and only those.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// The first `limit` pairs with `from <= key < to`, ascending.
    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>, StoreError>;

    /// Why writes are currently refused, if they are; for readiness.
    fn refusing_writes(&self) -> Option<StoreError>;

    /// Whether no other process can have changed the shown data. If not, the data must not be used in answers.
    fn is_current(&self) -> bool {
        true
    }
}

/// Why the store failed. The data is unchanged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error("the disk that holds {path} has less than {min_free_mb} MiB free")]
    Full { path: String, min_free_mb: u64 },
    #[error("more writes are waiting for the disk than the store keeps in memory")]
    Overloaded,
    #[error("a batch of {bytes} bytes is over the limit of {limit}")]
    BatchTooLarge { bytes: usize, limit: usize },
    #[error("a batch of {changes} changes is over the limit of {limit}")]
    TooManyChanges { changes: usize, limit: usize },
    #[error("the store is closed")]
    Closed,
    #[error("the database of the engine is full")]
    EngineFull,
    #[error("another node has taken over this store")]
    Deposed,
    #[error("the engine refuses: {0}")]
    Engine(String),
    #[error("the database cannot be read: {0}")]
    Read(String),
}

impl StoreError {
    /// Whether the same batch may succeed later, when there is free space again.
    pub fn is_lack_of_room(&self) -> bool {
        match self {
            Self::Full { .. } | Self::EngineFull | Self::Overloaded => true,
            Self::BatchTooLarge { .. }
            | Self::TooManyChanges { .. }
            | Self::Closed
            | Self::Deposed
            | Self::Engine(_)
            | Self::Read(_) => false,
        }
    }
}

/// The smallest key greater than every key with this prefix.
pub fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![u8::MAX; 256]
}

/// Pairs that a walk reads from the store per step.
const WALK_PAIRS: usize = 512;

/// Calls `visit` with every pair with `from <= key < to`, ascending, until it breaks. Only one step's pairs are in
/// memory.
pub fn walk(
    store: &dyn Store,
    from: &[u8],
    to: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    walk_all(store, from, to, &mut visit)
}

type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError> + 'a;

fn walk_all(store: &dyn Store, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
    let mut from = from.to_vec();
    loop {
        let pairs = store.scan(&from, to, WALK_PAIRS)?;
        for (key, value) in &pairs {
            if visit(key, value)?.is_break() {
                return Ok(());
            }
        }
        match pairs.last() {
            Some((last, _)) if pairs.len() == WALK_PAIRS => from = [last.as_slice(), &[0]].concat(),
            Some(_) | None => return Ok(()),
        }
        next_piece()?;
    }
}

/// Called between two pieces of a long read, to let others go first. Fails if nobody waits for the read any more.
pub fn next_piece() -> Result<(), StoreError> {
    match pause() {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(StoreError::Read("the reader has gone".to_owned())),
    }
}

type PauseHook = Box<dyn FnMut() -> ControlFlow<()>>;

thread_local! {
    /// Used by all walks of this thread that the caller of [`in_pieces`] makes, at any depth.
    static BETWEEN_PIECES: Cell<Option<PauseHook>> = const { Cell::new(None) };
}

/// Runs a read that may walk over much of the store. Between two pieces `between` may block for a while, or end the
/// walk with an error. The calling thread must not hold locks that others need.
pub fn in_pieces<T>(between: impl FnMut() -> ControlFlow<()> + 'static, read: impl FnOnce() -> T) -> T {
    /// Resets the hook, even after a panic.
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            BETWEEN_PIECES.take();
        }
    }
    BETWEEN_PIECES.set(Some(Box::new(between)));
    let _reset = Reset;
    read()
}

fn pause() -> ControlFlow<()> {
    let Some(mut between) = BETWEEN_PIECES.take() else { return ControlFlow::Continue(()) };
    let paused = between();
    BETWEEN_PIECES.set(Some(between));
    paused
}

/// Calls `visit` with every pair with this prefix, ascending; reads like [`walk`].
pub fn for_each(
    store: &dyn Store,
    prefix: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    walk(store, prefix, &end_of_prefix(prefix), |key, value| visit(key, value).map(ControlFlow::Continue))
}

/// Commits a batch and waits until it is durable; does nothing if it is empty.
pub async fn commit_durably(store: &dyn Store, batch: Batch) -> Result<(), StoreError> {
    if !batch.is_empty() {
        durable_up_to(store, store.commit(batch)?).await;
    }
    Ok(())
}

/// Waits until everything up to `sequence` is durable. Never returns if the store is gone.
pub async fn durable_up_to(store: &dyn Store, sequence: Sequence) {
    let mut durable = store.durable();
    if durable.wait_for(|reached| *reached >= sequence).await.is_err() {
        std::future::pending::<()>().await;
    }
}
