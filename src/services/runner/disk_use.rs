//! The space that a stage takes on the disk: its share, and whether there is any for another program.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::host::Options;
use super::work_dirs;
use crate::domain::Identifier;
use crate::shares::{Disk, DiskWriter};

/// A step that finds the disk full fails after this long. Most of the time, the step that filled it has been ended by then.
const WAITS_FOR_ROOM: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub(super) struct DiskUse {
    disk: Disk,
    organization: Identifier,
    pub writer: DiskWriter,
}

impl DiskUse {
    /// Of the stage that works in this directory.
    pub fn new(options: &Options, organization: &Identifier, work_dir: &Path) -> Option<Self> {
        let disk = options.disk.clone()?;
        let directories = vec![work_dir.to_owned(), work_dirs::temporary(work_dir)];
        let writer = disk.watch(organization, directories, options.max_disk_bytes, "runner.max_disk_mb");
        Some(Self { disk, organization: organization.clone(), writer })
    }

    /// The error is the end of a sentence.
    pub async fn until_room(&self) -> Result<(), String> {
        let until = Instant::now() + WAITS_FOR_ROOM;
        while let Some(reason) = self.disk.refusal(&self.organization) {
            if Instant::now() >= until {
                return Err(reason);
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }
}
