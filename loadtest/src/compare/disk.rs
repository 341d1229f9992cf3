//! Owns what the disk itself takes to make a small write durable: the limit of a single client's claim.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::statfs;

const BLOCK_BYTES: usize = 4096;
/// Enough that the same block does not come again at once.
const BLOCKS: u64 = 1024;
/// Enough for a median, and less than a tenth of a second on a good disk.
const SAMPLES: usize = 500;
/// A slow disk gives fewer samples instead of a long wait.
const LONGEST: Duration = Duration::from_secs(2);
/// What Linux calls a file system in memory.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The median of writing a block over a preallocated one and `fdatasync`, one at a time, in microseconds. Nothing is
/// appended, so no metadata has to be written.
pub fn fdatasync_microseconds(directory: &Path) -> io::Result<f64> {
    let path = directory.join("fdatasync");
    let result = sample(&path);
    std::fs::remove_file(&path)?;
    result
}

fn sample(path: &Path) -> io::Result<f64> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    preallocate(&file)?;
    let block = [0x5a; BLOCK_BYTES];
    let (start, mut times) = (Instant::now(), Vec::with_capacity(SAMPLES));
    for place in (0..BLOCKS).cycle().take(SAMPLES) {
        let begun = Instant::now();
        file.write_all_at(&block, place * BLOCK_BYTES as u64)?;
        file.sync_data()?;
        times.push(begun.elapsed());
        if start.elapsed() > LONGEST {
            break;
        }
    }
    times.sort_unstable();
    Ok(times[times.len() / 2].as_secs_f64() * 1e6)
}

/// Written and not only reserved: a first write into a reserved block changes metadata.
fn preallocate(file: &File) -> io::Result<()> {
    let zeros = vec![0; BLOCK_BYTES * BLOCKS as usize];
    file.write_all_at(&zeros, 0)?;
    file.sync_all()
}

/// There is no durability to compare in memory.
pub fn is_in_memory(directory: &Path) -> io::Result<bool> {
    Ok(statfs(directory)?.f_type as u64 == TMPFS_MAGIC)
}
