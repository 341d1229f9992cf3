//! Makes the names in a directory durable: a file that was created, renamed or removed is only so after a power cut
//! when its directory was synced.

use std::fs::File;
use std::io;
use std::path::Path;

pub fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
