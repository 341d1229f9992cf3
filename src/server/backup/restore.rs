//! From a stream to a data directory, which appears only after the last byte has been checked.

use std::io::{self, BufReader, Read};
use std::path::Path;

use super::stream::{BackupReader, Fault, Header, Part, Totals};
use delivery::logs::{self, Logs};
use store::{Filling, LoggedStore, NewDataDir, OpenError, Options, ReplayError, Sequence, StoreError};

/// Serves the reader's many small reads from memory.
const BUFFER_BYTES: usize = 256 * 1024;

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("the backup {0}")]
    Fault(#[from] Fault),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("the backup cannot be restored: {0}")]
    Replay(#[from] ReplayError),
    #[error("the backup cannot be restored: {0}")]
    Store(#[from] StoreError),
    #[error("cannot write the logs of deployments: {0}")]
    Logs(#[source] io::Error),
}

/// The result of a restore.
pub struct Restored {
    pub header: Header,
    pub totals: Totals,
    /// How many environments had their next fencing token raised.
    pub environments: usize,
}

/// Creates a data directory, which must be missing or empty, and raises all fencing tokens by `margin`. On failure
/// nothing is left behind.
pub fn restore(input: impl Read, path: &Path, margin: u64, options: Options) -> Result<Restored, RestoreError> {
    // Refuses unreadable backups before anything is written.
    let (reader, header) = BackupReader::open(BufReader::with_capacity(BUFFER_BYTES, input))?;
    let new = NewDataDir::begin(path)?;
    let (store, totals) = fill(reader, Sequence(header.sequence), &new, options)?;
    let environments = locks::skip_fencing_tokens(&store, margin, |batch| store.commit_patiently(batch))?;
    store.close();
    drop(store);
    new.finish()?;
    Ok(Restored { header, totals, environments })
}

fn fill<R: Read>(
    mut reader: BackupReader<R>,
    from: Sequence,
    new: &NewDataDir,
    options: Options,
) -> Result<(LoggedStore, Totals), RestoreError> {
    let folder = new.folder();
    let mut state = State::Filling(Box::new(Filling::begin(&folder, from, options)?));
    let mut restored_logs = Logs::restore(&folder.join(logs::FOLDER)).map_err(RestoreError::Logs)?;
    loop {
        match reader.next()? {
            Ok(Part::Pair { key, value }) => match &mut state {
                State::Filling(filling) => filling.put(key, value)?,
                // Cannot happen: the reader refuses any other order.
                State::Open(_) => return Err(ReplayError::Form.into()),
            },
            Ok(Part::Batches(batches)) => {
                let store = state.open()?;
                store.replay(&batches)?;
                state = State::Open(store);
            }
            Ok(Part::Log { deployment, piece }) => {
                restored_logs.append(deployment, &piece).map_err(RestoreError::Logs)?;
            }
            Err(totals) => {
                restored_logs.finish().map_err(RestoreError::Logs)?;
                return Ok((state.open()?, totals));
            }
        }
    }
}

/// First the pairs, then the batches that change them.
enum State {
    Filling(Box<Filling>),
    Open(LoggedStore),
}

impl State {
    fn open(self) -> Result<LoggedStore, OpenError> {
        match self {
            State::Filling(filling) => filling.finish(),
            State::Open(store) => Ok(store),
        }
    }
}
