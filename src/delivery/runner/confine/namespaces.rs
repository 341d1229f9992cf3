//! New namespaces for a step's init and everything below it.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use rustix::process::{getgid, getuid};
use rustix::thread::{CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities};

/// The next child of this process is the first process of a new PID namespace. An ordinary user may do that only in a user
/// namespace, which this process then enters too; its capabilities there end with the init's use of them.
pub(super) fn enter() -> Result<(), String> {
    let (user, group) = (getuid(), getgid());
    if user.is_root() {
        return unshare(CloneFlags::CLONE_NEWPID).map_err(|error| refused("a PID namespace", error.into()));
    }
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID)
        .map_err(|error| refused("a user and PID namespace", error.into()))?;
    // Everybody keeps their own id: programs behave differently for root.
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{0} {0} 1", user.as_raw())),
        ("gid_map", format!("{0} {0} 1", group.as_raw())),
    ];
    for (name, text) in maps {
        fs::write(format!("/proc/self/{name}"), text).map_err(|error| refused("the ids of a user namespace", error))?;
    }
    keep_capabilities().map_err(|error| refused("the capabilities of a user namespace", error))
}

/// Lets the init, another program, mount things in its namespace, and bring up a loopback.
fn keep_capabilities() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    set_capabilities(None, sets)?;
    for kept in [CapabilitySet::SYS_ADMIN, CapabilitySet::NET_ADMIN] {
        configure_capability_in_ambient_set(kept, true)?;
    }
    Ok(())
}

fn refused(what: &str, error: io::Error) -> String {
    format!("{what} cannot be had: {error}")
}
