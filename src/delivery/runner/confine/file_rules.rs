//! Landlock: the files that a step may read and write, the sockets that it may connect to, and that it signals nobody outside.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, path_beneath_rules,
};

use rustix::process::getuid;

use super::super::protocol::Confinement;

/// The newest rules we ask for. An older kernel applies those it knows.
const RULES: ABI = ABI::V9;
/// Programs, libraries and configuration of the machine: to be read and executed by everybody.
pub(super) const SYSTEM: &[&str] = &[
    "/bin",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/opt",
    "/run/current-system",
    "/sbin",
    "/sys",
    "/usr",
    "/var/lib/ca-certificates",
];
/// The files of the resolver, which it replaces.
const RESOLVER: &str = "/run/systemd/resolve";
/// The places for temporary files and shared memory. A deployment has one directory for all of them.
pub(super) const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Files that may lie anywhere on a machine, by the links that lead there.
const SYSTEM_LINKS: &[&str] = &["/etc/resolv.conf", "/etc/hosts", "/etc/localtime"];
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
/// With namespaces, these are the step's own.
const OWN_TERMINALS: &[&str] = &["/dev/ptmx", "/dev/pts"];

/// Confines this process and its children to come. The error is the end of a sentence.
pub(super) fn restrict(confinement: &Confinement) -> Result<(), String> {
    let status = rules(confinement).and_then(RulesetCreated::restrict_self);
    match status.map_err(|error| format!("Landlock refuses: {error}"))?.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("this kernel has no Landlock".to_owned()),
    }
}

fn rules(confinement: &Confinement) -> Result<RulesetCreated, RulesetError> {
    let (read, all) = (AccessFs::from_read(RULES), AccessFs::from_all(RULES));
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let own: &[&str] = &[&confinement.work_dir];
    let rules = Ruleset::default()
        .handle_access(all)?
        .scope(Scope::Signal | Scope::AbstractUnixSocket)?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules([RESOLVER], read))?
        .add_rules(path_beneath_rules(linked(), read))?
        .add_rules(path_beneath_rules(DEVICES, device))?
        .add_rules(path_beneath_rules(&confinement.read_only, read))?
        .add_rules(path_beneath_rules(&confinement.writable, all))?
        .add_rules(path_beneath_rules(own, all))?;
    if confinement.namespaces {
        // Root may change the kernel's settings there without any capability.
        let process_files = if getuid().is_root() { read } else { read | AccessFs::WriteFile };
        return rules
            .add_rules(path_beneath_rules(["/proc"], process_files))?
            .add_rules(path_beneath_rules(TEMPORARY, all))?
            .add_rules(path_beneath_rules(OWN_TERMINALS, all));
    }
    rules
        .add_rules(path_beneath_rules(["/proc"], read))?
        .add_rules(path_beneath_rules([&confinement.temporary_dir], all))
}

/// Whether every step may read it anyway.
pub fn is_of_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

pub(super) fn linked() -> Vec<PathBuf> {
    SYSTEM_LINKS.iter().filter_map(|link| Path::new(link).canonicalize().ok()).collect()
}
