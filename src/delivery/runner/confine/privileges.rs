//! The user, the capabilities and the limits of a step.

use std::io;

use rustix::fs::fchown;
use rustix::io::Errno;
use rustix::process::{Gid, Resource, Rlimit, Uid, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::super::protocol::StepLimits;

/// Out of memory, the kernel ends a step rather than the server.
const OOM_SCORE: &str = "500";

/// For good: no program that the step executes gives it more.
pub(super) fn give_up(user: Option<u32>) -> Result<(), String> {
    drop_bounding_set().map_err(|error| format!("its capabilities cannot be dropped: {error}"))?;
    if let Some(user) = user {
        become_user(user).map_err(|error| format!("it cannot become user {user}: {error}"))?;
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    let dropped = clear_ambient_capability_set().and_then(|()| set_capabilities(None, none));
    dropped.map_err(|error| format!("its capabilities cannot be dropped: {error}"))?;
    set_no_new_privs(true).map_err(|error| format!("`no_new_privs` cannot be set: {error}"))
}

/// Not every user may. Without it, `no_new_privs` alone keeps programs from getting any of them back.
fn drop_bounding_set() -> io::Result<()> {
    for bit in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            // The kernel knows no more of them.
            Err(Errno::INVAL | Errno::PERM) => return Ok(()),
            dropped => dropped?,
        }
    }
    Ok(())
}

fn become_user(user: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    // Programs that open /dev/stdout or /dev/stderr open this pipe again.
    fchown(io::stdout(), Some(uid), Some(gid))?;
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    Ok(set_thread_res_uid(uid, uid, uid)?)
}

pub(super) fn limit(limits: &StepLimits) -> Result<(), String> {
    // Raising it is always allowed; where there is no such file, nothing is lost.
    std::fs::write("/proc/self/oom_score_adj", OOM_SCORE).ok();
    let all = [
        (Resource::Nproc, limits.processes),
        (Resource::Data, limits.memory_bytes),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nofile, limits.open_files),
        (Resource::Cpu, limits.cpu_seconds),
    ];
    for (resource, wanted) in all {
        let Some(wanted) = wanted else { continue };
        let maximum = getrlimit(resource).maximum.map_or(wanted, |maximum| maximum.min(wanted));
        let limit = Rlimit { current: Some(maximum), maximum: Some(maximum) };
        setrlimit(resource, limit).map_err(|error| format!("its limits cannot be set: {error}"))?;
    }
    Ok(())
}
