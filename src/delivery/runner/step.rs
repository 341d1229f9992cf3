//! The parts shared by all kinds of steps: their context, the limits that may end them early (among them the ownership
//! of the environment and the space on the disk), and their outcome.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Pid;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

use super::host::{Host, Options};
use super::mask::Mask;
use super::protocol::Confinement;
use super::step_lease::Moment;
use super::work_dirs;
use super::write_pace::{Paced, WritePace, written};
use ambient::backoff::{Backoff, Retries};
use domain::{DeploymentId, EnvironmentKey, Identifier, VariableName, VariableValue};
use processes::{file, tree};
use shares::{Disk, DiskWriter, Look, Unlisted};

/// The directive for a running stage; it only moves forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Directive {
    Run,
    /// End the stage and report its end.
    Stop,
    /// The server is stopping: end the stage immediately; the next start reports it.
    Abandon,
}

/// Resolves once the directive is `wanted` or beyond.
pub(super) async fn until(mut directive: watch::Receiver<Directive>, wanted: Directive) {
    if directive.wait_for(|directive| *directive >= wanted).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The variables of a step by name.
pub(super) type Variables = BTreeMap<String, Zeroizing<String>>;

/// The context of the steps in one run of a stage.
#[derive(Clone)]
pub(super) struct StepContext {
    pub deployment: DeploymentId,
    pub variables: Variables,
    pub mask: Mask,
    pub work_dir: PathBuf,
    pub confinement: Option<Confinement>,
}

impl StepContext {
    /// This context with the inputs of a step, which take precedence over variables.
    pub fn with(&self, inputs: &BTreeMap<VariableName, VariableValue>) -> Cow<'_, Self> {
        if inputs.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut context = self.clone();
        let given =
            |(name, value): (&VariableName, &VariableValue)| (name.to_string(), Zeroizing::new(value.to_string()));
        context.variables.extend(inputs.iter().map(given));
        Cow::Owned(context)
    }
}

/// The conditions that may end a step early.
pub(super) struct Limits {
    pub directive: watch::Receiver<Directive>,
    pub deadline: Instant,
    pub host: Arc<dyn Host>,
    pub environment: EnvironmentKey,
    pub disk: Option<DiskUse>,
}

impl Limits {
    /// Resolves when a step may start, with a moment at which that was certain, or with the outcome of a step that may
    /// not.
    pub async fn until_startable(&self) -> Result<Moment, Outcome> {
        let confirmed = async {
            let mut retries = Retries::new(ASK_AGAIN);
            loop {
                match self.confirmed() {
                    Some(moment) => return Ok(moment),
                    None => sleep(retries.failed()).await,
                }
            }
        };
        self.unless_over(confirmed).await
    }

    /// Resolves when the disk has room for another program, or with the outcome of a step that may not start.
    pub async fn until_room(&self) -> Result<(), Outcome> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let found =
            async { disk.until_room().await.map_err(|reason| Outcome::Failed(format!("was not started: {reason}"))) };
        self.unless_over(found).await
    }

    /// A moment at which this server certainly owned the environment, if it still does. The clock is read before the
    /// check: if the server is frozen in between, the moment is old, and a lease that counts from it may be over.
    pub fn confirmed(&self) -> Option<Moment> {
        let asked = Moment::now();
        self.host.may_act(&self.environment).then_some(asked)
    }

    async fn unless_over<T>(&self, result: impl Future<Output = Result<T, Outcome>>) -> Result<T, Outcome> {
        tokio::select! {
            biased;
            result = result => result,
            () = until(self.directive.clone(), Directive::Stop) => Err(Outcome::Stopped),
            () = tokio::time::sleep_until(self.deadline) => Err(Outcome::TimedOut),
        }
    }
}

/// The end of a step. None of its processes is left.
pub(super) struct StepEnd {
    pub outcome: Outcome,
    pub exit_code: Option<i32>,
    /// The server's remarks about the step, for the log.
    pub remarks: Vec<String>,
}

pub(super) enum Outcome {
    Succeeded,
    /// The reason, as the end of a sentence that begins with the step's name.
    Failed(String),
    TimedOut,
    Stopped,
}

impl StepEnd {
    pub fn of(outcome: Outcome) -> Self {
        Self { outcome, exit_code: None, remarks: Vec::new() }
    }
}

/// The pauses between checks while a step waits. A check only reads memory.
const ASK_AGAIN: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));

/// A step that finds the disk full fails after this long. Usually the step that filled the disk has been ended by then.
const WAITS_FOR_ROOM: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Open files examined per check.
const OPEN_FILES_MAX: usize = 20_000;
/// The unit of `st_blocks`.
const BLOCK: u64 = 512;

/// The disk use of a stage: its share, and whether there is room for another program.
pub(super) struct DiskUse {
    disk: Disk,
    organization: Identifier,
    work_dir: PathBuf,
    /// Tells when the step must end because it fills the disk.
    pub writer: DiskWriter,
    write_pace: Option<WritePace>,
}

impl DiskUse {
    /// The disk use of the stage that works in this directory.
    pub fn new(options: &Options, organization: &Identifier, work_dir: &Path) -> Option<Self> {
        let disk = options.disk.clone()?;
        let directories = vec![work_dir.to_owned(), work_dirs::temporary(work_dir)];
        let writer = disk.watch(organization, directories, options.max_disk_bytes, "runner.max_disk_mb");
        Some(Self {
            disk,
            organization: organization.clone(),
            work_dir: work_dir.to_owned(),
            writer,
            write_pace: options.write_pace.clone(),
        })
    }

    /// Until the next call, data written by this process and its descendants counts too, if it is in no directory.
    pub fn look_at(&self, supervisor: Option<Pid>) {
        let work_dir = self.work_dir.clone();
        let look = supervisor.map(|supervisor| Arc::new(move || unlisted(supervisor, &work_dir)) as Look);
        self.writer.look_with(look);
    }

    /// Until the result is dropped, processes below this supervisor are paused while they write too fast, except the
    /// first `own`.
    pub fn pace(&self, supervisor: Pid, own: usize) -> Option<Paced> {
        Some(self.write_pace.as_ref()?.look_at(&self.organization, supervisor, own))
    }

    /// Waits for room on the disk. The error is the end of a sentence.
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

/// The data that the processes of a step have written: into removed but still open files, and in total. A process can
/// hide its files from this user; then it counts when it has ended, as recorded by its parent.
fn unlisted(supervisor: Pid, work_dir: &Path) -> Unlisted {
    let mut found = Unlisted::default();
    let Ok(device) = fs::metadata(work_dir).map(|found| found.dev()) else { return found };
    let (mut seen, mut left) = (HashSet::new(), OPEN_FILES_MAX);
    for process in tree(supervisor) {
        found.written_bytes = found.written_bytes.saturating_add(written(process));
        for open in fs::read_dir(file(process, "fd")).into_iter().flatten().flatten() {
            left = left.saturating_sub(1);
            // The link first: examining a file itself may take long on a network file system.
            let is_removed = |name: PathBuf| name.as_os_str().as_encoded_bytes().ends_with(b" (deleted)");
            if left == 0 || !fs::read_link(open.path()).is_ok_and(is_removed) {
                continue;
            }
            let Ok(metadata) = fs::metadata(open.path()) else { continue };
            let counts = metadata.is_file() && metadata.nlink() == 0 && metadata.dev() == device;
            if counts && seen.insert(metadata.ino()) {
                found.removed_bytes = found.removed_bytes.saturating_add(metadata.blocks().saturating_mul(BLOCK));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;

    use rustix::process::getpid;

    use super::*;

    #[test]
    fn a_file_that_is_removed_and_open_is_found_once() {
        const MIB: u64 = 1024 * 1024;
        let dir = tempfile::tempdir().unwrap();
        let (kept, removed) = (dir.path().join("kept"), dir.path().join("removed"));
        fs::File::create(&kept).and_then(|mut file| file.write_all(&[7; MIB as usize])).unwrap();
        let mut open = fs::File::create(&removed).unwrap();
        open.write_all(&vec![7; 32 * MIB as usize]).unwrap();
        open.sync_all().unwrap();
        let _again = open.try_clone().unwrap();
        fs::remove_file(&removed).unwrap();
        // Other tests of this process may also have removed files open.
        let found = unlisted(getpid(), dir.path()).removed_bytes;
        assert!((32 * MIB..60 * MIB).contains(&found), "{found}");
        drop((open, _again));
        assert!(unlisted(getpid(), dir.path()).removed_bytes < 32 * MIB);
    }
}
