//! The settings of the runner: concurrency, isolation and limits of steps.

use std::path::PathBuf;
use std::time::Duration;

use super::kinds::{Kind, absolute_paths, choice, count, kibibytes, mebibytes, number, seconds};
use super::layers::section;
use domain::named::named_enum;

/// Enough for dozens of directories. Every step gets a copy of the search path.
const SEARCH_PATH_MAX: usize = 4_096;
/// Every step opens each of these paths.
const PATHS_MAX: usize = 64;

section! {
    pub struct Runner {
        /// The limit for all deployments together.
        pub max_running_steps: usize = get("runner.max_running_steps", count(1, 256)),
        /// The time between SIGTERM and SIGKILL for a step.
        pub termination_grace: Duration = get("runner.termination_grace_seconds", seconds(0, 600)),
        /// The `PATH` of steps.
        pub path: String = get("runner.path", search_path()),
        pub log_bytes_per_step: u64 = get("runner.log_kb_per_step", kibibytes(64, 1_048_576)),
        pub network: StepNetwork = get("runner.network", choice(StepNetwork::ALL, StepNetwork::as_str)),
        pub isolation: Isolation = get("runner.isolation", choice(Isolation::ALL, Isolation::as_str)),
        pub users: UserRange = get("runner.user_range", UserRange::kind()),
        /// Paths that steps may read in addition to those of the system.
        pub read_only_paths: Vec<PathBuf> = get("runner.read_only_paths", absolute_paths(PATHS_MAX)),
        pub writable_paths: Vec<PathBuf> = get("runner.writable_paths", absolute_paths(PATHS_MAX)),
        /// The limits of a confined step; `None`: off.
        pub max_processes: Option<u32> = get("runner.max_processes", number(16, 1_000_000).or_off()),
        pub max_memory_bytes: Option<u64> = get("runner.max_memory_mb", mebibytes(64, 16_777_216).or_off()),
        pub max_file_bytes: Option<u64> = get("runner.max_file_mb", mebibytes(1, 16_777_216).or_off()),
        pub max_open_files: Option<u32> = get("runner.max_open_files", number(64, 1_048_576).or_off()),
        pub max_cpu_seconds: Option<u32> = get("runner.max_cpu_seconds", number(1, 31_536_000).or_off()),
        /// The size of the directories of one deployment, and of an organization; `None`: off.
        pub max_disk_bytes: Option<u64> = get("runner.max_disk_mb", mebibytes(1, 16_777_216).or_off()),
        pub max_organization_disk_bytes: Option<u64> =
            get("runner.max_disk_per_organization_mb", mebibytes(1, 16_777_216).or_off()),
        /// With less free space, steps are ended and none start.
        pub min_free_bytes: Option<u64> = get("runner.min_free_mb", mebibytes(1, 1_048_576).or_off()),
        /// The rate per second, for the steps of all organizations together; `None`: off.
        pub max_write_bytes: Option<u64> = get("runner.max_write_mb_per_second", mebibytes(1, 1_048_576).or_off()),
    }
}

named_enum! {
    /// How steps are confined.
    pub enum Isolation {
        /// Completely, or the server does not start.
        Strict = "strict",
        /// With all mechanisms that the machine has.
        Best = "best",
        Off = "off",
    }
}

named_enum! {
    /// The network of the programs of steps.
    pub enum StepNetwork {
        /// The network of the machine.
        Open = "open",
        None = "none",
    }
}

fn search_path() -> Kind<String> {
    Kind::text(format!("absolute directories with ':' between them, at most {SEARCH_PATH_MAX} bytes in all"), |text| {
        // An empty or relative directory would depend on where the step runs.
        let sane = text.len() <= SEARCH_PATH_MAX
            && !text.contains('\0')
            && text.split(':').all(|directory| directory.starts_with('/'));
        sane.then(|| text.to_owned())
    })
}

/// User ids for the steps of organizations, inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserRange {
    pub first: u32,
    pub last: u32,
}

impl UserRange {
    /// Lower ids belong to the system and root.
    const LOWEST: u32 = 1_000;
    /// The kernel treats the two numbers above as "nobody" and "unchanged".
    const HIGHEST: u32 = u32::MAX - 2;

    fn kind() -> Kind<Self> {
        let (lowest, highest) = (Self::LOWEST, Self::HIGHEST);
        let allowed = format!("two user ids from {lowest} to {highest} with '-' between them, the lower one first");
        Kind::text(allowed, Self::parse)
    }

    /// Parses `first-last`.
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-')?;
        let range = Self { first: first.trim().parse().ok()?, last: last.trim().parse().ok()? };
        (Self::LOWEST <= range.first && range.first <= range.last && range.last <= Self::HIGHEST).then_some(range)
    }
}
