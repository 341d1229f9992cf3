//! All layers of a confinement, in the order in which each is still allowed.

use std::fs::{self, File};
use std::path::Path;

use super::super::control_groups;
use super::super::protocol::Confinement;
use super::{file_rules, mounts, privileges, system_calls};

/// Confines this process for good. The error is the end of a sentence.
pub(super) fn apply(confinement: &Confinement) -> Result<(), String> {
    for group in &confinement.control_groups {
        control_groups::join(Path::new(group))
            .map_err(|error| format!("it cannot join the control group {group}: {error}"))?;
    }
    if confinement.namespaces {
        mounts::arrange(confinement)?;
    }
    privileges::limit(&confinement.limits)?;
    privileges::give_up(confinement.user)?;
    if confinement.file_rules {
        file_rules::restrict(confinement)?;
    }
    if confinement.call_filter {
        system_calls::filter()?;
    }
    Ok(())
}

/// How the reason begins if the disk is full, among other causes.
pub(super) const WORK_DIR_UNUSABLE: &str = "it could not use its working directory";

/// Whether a step could work here, and could not see what it must not. For a process that is confined.
pub(super) fn check(confinement: &Confinement) -> Result<(), String> {
    let own = Path::new(&confinement.work_dir).join("probe");
    let used = File::create(&own).and_then(|_| fs::remove_file(&own));
    used.map_err(|error| format!("{WORK_DIR_UNUSABLE} {}: {error}", confinement.work_dir))?;
    if !confinement.namespaces && !confinement.file_rules {
        // Nothing hides it, and the other layers hold nevertheless.
        return Ok(());
    }
    let seen = fs::read_dir(&confinement.data_dir).into_iter().flatten().flatten();
    let others = seen.filter(|entry| !Path::new(&confinement.work_dir).starts_with(entry.path())).count();
    if others > 0 {
        return Err(format!("it could see {others} entries of the data directory"));
    }
    Ok(())
}
