//! The only thread that writes the log: it writes a group, syncs it with `fdatasync`, and publishes the new durable
//! sequence.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use super::disk::{self, Aligned};
use super::format;
use super::queue::{Group, Queue};
use super::segments::Segments;
use crate::batch::Sequence;
use crate::fatal::Fatal;
use crate::journal::Journals;
use crate::overlay::Overlay;

pub struct Committer {
    pub queue: Arc<Queue>,
    pub segments: Arc<Segments>,
    pub overlay: Arc<Overlay>,
    pub journals: Journals,
    pub durable: watch::Sender<Sequence>,
    pub fatal: Fatal,
    pub current: Current,
    pub metrics: Metrics,
}

/// The segment being written.
pub struct Current {
    pub file: File,
    pub path: PathBuf,
    pub offset: usize,
    pub room: usize,
}

/// Handles are looked up once, because a lookup costs more than an increment.
pub struct Metrics {
    groups: metrics::Counter,
    batches: metrics::Counter,
    bytes: metrics::Counter,
    sync_seconds: metrics::Histogram,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            groups: metrics::counter!("lockkeeper_log_groups_total"),
            batches: metrics::counter!("lockkeeper_log_batches_total"),
            bytes: metrics::counter!("lockkeeper_log_bytes_total"),
            sync_seconds: metrics::histogram!("lockkeeper_log_sync_seconds"),
        }
    }
}

impl Committer {
    pub fn run(mut self) {
        let mut pages = Aligned::default();
        self.segments.note_left(self.current.left());
        while let Some(group) = self.queue.take() {
            let count = group.len() as u64;
            match self.write(&group, &mut pages) {
                Ok(Written::Durable { bytes }) => self.metrics.bytes.increment(bytes as u64),
                Ok(Written::NoRoom) => {
                    tracing::error!("closing with batches that did not fit on the disk; none was acknowledged");
                    return self.queue.abandon();
                }
                Err(error) => {
                    self.queue.abandon();
                    return (self.fatal)(&format!(
                        "writing the log {} failed: {error}; everything acknowledged is safe: check the disk, then \
                         start the server again",
                        self.current.path.display()
                    ));
                }
            }
            let last = group.first + count - 1;
            let pages = self.journals.extend(group.first, group.batches());
            self.overlay.fold(last, group.batches().chain([pages]));
            self.durable.send_replace(Sequence(last));
            self.queue.finish(group);
            self.metrics.groups.increment(1);
            self.metrics.batches.increment(count);
        }
    }

    fn write(&mut self, group: &Group, pages: &mut Aligned) -> io::Result<Written> {
        let pages = pages.room(format::extent(group.payload.len()));
        format::seal(group.first, group.len() as u32, &group.payload, pages);
        if self.current.offset + pages.len() > self.current.room {
            let Some(file) = self.segments.next(group.first)? else {
                return Ok(Written::NoRoom);
            };
            let path = self.segments.path(group.first);
            self.current = Current { file, path, offset: 0, room: self.segments.room() };
        }
        disk::write_all_at(&self.current.file, pages, self.current.offset as u64)?;
        let begun = Instant::now();
        self.current.file.sync_data()?;
        self.metrics.sync_seconds.record(begun.elapsed().as_secs_f64());
        self.current.offset += pages.len();
        self.segments.note_left(self.current.left());
        Ok(Written::Durable { bytes: pages.len() })
    }
}

impl Current {
    fn left(&self) -> usize {
        self.room.saturating_sub(self.offset)
    }
}

enum Written {
    Durable { bytes: usize },
    NoRoom,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::log::reader::Pins;
    use crate::{Batch, StoreError};
    use parking_lot::Mutex;

    #[test]
    fn a_failed_write_is_fatal_and_nothing_is_said_to_be_durable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segment");
        std::fs::write(&path, vec![0; 2 * format::PAGE]).unwrap();
        // Opened read-only, so that writing to it fails.
        let file = File::open(&path).unwrap();
        let sentences = Arc::new(Mutex::new(Vec::new()));
        let said = sentences.clone();
        let queue = Arc::new(Queue::starting_after(0));
        let (durable, receiver) = watch::channel(Sequence(0));
        let overlay = Arc::new(Overlay::starting_after(0));
        let mut batch = Batch::default();
        batch.put(b"a", b"1");
        queue.push(batch).unwrap();
        Committer {
            queue: queue.clone(),
            segments: Arc::new(Segments::new(dir.path(), 0, 0, vec![1], Pins::new(0)).unwrap()),
            overlay: overlay.clone(),
            journals: Journals::default(),
            durable,
            fatal: Arc::new(move |sentence| said.lock().push(sentence.to_owned())),
            current: Current { file, path, offset: 0, room: 2 * format::PAGE },
            metrics: Metrics::default(),
        }
        .run();
        assert!(sentences.lock()[0].contains("everything acknowledged is safe"));
        assert_eq!((*receiver.borrow(), overlay.get(b"a")), (Sequence(0), None));
        assert!(matches!(queue.push(Batch::default()), Err(StoreError::Closed)));
    }
}
