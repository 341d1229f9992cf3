//! The clock: it must not be before what has been written, and should be kept right by somebody.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use super::finding::Finding;

const CLOCK: &str = "clock";
/// Clocks of file systems are coarse, and a server may write at this moment.
const TOLERANCE: Duration = Duration::from_secs(2);
/// Folders of the data directory whose files are written all the time.
const WRITTEN: [&str; 2] = ["", "log"];
/// Files of a folder that are looked at: the log has few.
const FILES_MAX: usize = 10_000;

/// Whether somebody keeps the clock right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Synchronised {
    Yes,
    No,
    Unknown,
}

pub fn examine(data_dir: &Path) -> Finding {
    judge(SystemTime::now(), newest(data_dir), synchronised())
}

fn judge(now: SystemTime, newest: Option<SystemTime>, synchronised: Synchronised) -> Finding {
    let behind = newest.and_then(|newest| newest.duration_since(now).ok()).filter(|behind| *behind > TOLERANCE);
    if let Some(behind) = behind {
        let words = format!("{} seconds before the newest file of the data directory", behind.as_secs());
        return Finding::fault(
            CLOCK,
            words,
            "set it, and let NTP keep it: times in answers and expiry dates follow it",
        );
    }
    match synchronised {
        Synchronised::Yes => Finding::ok(CLOCK, "synchronised"),
        Synchronised::No => Finding::warning(
            CLOCK,
            "not synchronised",
            "turn on NTP (timedatectl set-ntp true): times in answers and expiry dates follow it",
        ),
        Synchronised::Unknown => {
            Finding::ok(CLOCK, "not before the data; whether it is synchronised cannot be asked here")
        }
    }
}

fn newest(data_dir: &Path) -> Option<SystemTime> {
    let folders = WRITTEN.iter().filter_map(|folder| data_dir.join(folder).read_dir().ok());
    let files = folders.flat_map(|folder| folder.take(FILES_MAX).flatten());
    files.filter_map(|file| file.metadata().ok()?.modified().ok()).max()
}

fn synchronised() -> Synchronised {
    let mut asking = Command::new("timedatectl");
    asking.args(["show", "--property=NTPSynchronized", "--value"]).stdin(Stdio::null()).stderr(Stdio::null());
    match asking.output() {
        Ok(answer) if answer.status.success() => match answer.stdout.trim_ascii() {
            b"yes" => Synchronised::Yes,
            b"no" => Synchronised::No,
            _ => Synchronised::Unknown,
        },
        Ok(_) | Err(_) => Synchronised::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_clock_before_the_data_is_a_fault_and_one_that_nobody_keeps_a_warning() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let later = Some(now + Duration::from_secs(600));
        assert_eq!(judge(now, later, Synchronised::Yes).level, Level::Fault);
        let just_now = Some(now + Duration::from_secs(1));
        assert_eq!(judge(now, just_now, Synchronised::Yes).level, Level::Ok);
        assert_eq!(judge(now, None, Synchronised::No).level, Level::Warning);
        assert_eq!(judge(now, None, Synchronised::Unknown).level, Level::Ok);
    }
}
