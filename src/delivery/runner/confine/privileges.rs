//! The user, the capabilities, the limits and the system calls of a step.

use std::io;

use nix::libc::{self, c_int, c_long};
use rustix::fs::fchown;
use rustix::io::Errno;
use rustix::process::{Gid, Resource, Rlimit, Uid, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, sock_filter,
};

use super::super::protocol::StepLimits;

/// When memory runs out, the kernel ends a step rather than the server.
const OOM_SCORE: &str = "500";

/// Permanent: no program that the step executes regains privileges.
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

/// Not every user may do this. Without it, only `no_new_privs` prevents programs from regaining capabilities.
fn drop_bounding_set() -> io::Result<()> {
    for bit in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            // The kernel has no higher capability, or refuses to drop any.
            Err(Errno::INVAL | Errno::PERM) => return Ok(()),
            dropped => dropped?,
        }
    }
    Ok(())
}

fn become_user(user: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    // Programs that open /dev/stdout or /dev/stderr reopen this pipe.
    fchown(io::stdout(), Some(uid), Some(gid))?;
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    Ok(set_thread_res_uid(uid, uid, uid)?)
}

pub(super) fn limit(limits: &StepLimits) -> Result<(), String> {
    // Raising the score is always allowed; where the file does not exist, nothing is lost.
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

/// These calls fail with "function not implemented", as in a kernel without them: programs try them first and fall back
/// to others. The arguments of `clone3` are in memory, where no filter can read them; those of `clone` can be checked.
const NOT_IMPLEMENTED: &[c_long] =
    &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// Numbers that the library does not have for every architecture.
const KEXEC_FILE_LOAD: c_long = if cfg!(target_arch = "x86_64") { 320 } else { 294 };
const OPEN_TREE_ATTR: c_long = 467;

/// These calls fail with "operation not permitted".
const REFUSED: &[c_long] = &[
    // The kernel's keys are shared by all processes of a user or of a session.
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // Access to other processes.
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_setns,
    // Large kernel interfaces with a history of faults.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    // Changes to the mount tree, and access to files by handle, which bypasses it.
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_pivot_root,
    libc::SYS_umount2,
    // Settings of the whole machine.
    libc::SYS_acct,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    KEXEC_FILE_LOAD,
    libc::SYS_kexec_load,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
];

/// Namespaces in which a step would have every capability.
const NEW_NAMESPACES: &[c_int] = &[
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];
/// For `unshare` only: in `clone` this bit is part of a signal number.
const NEW_TIME: c_int = 0x80;

/// The socket families that programs use. The others are rare and reach hardware, the host of a virtual machine
/// (`AF_VSOCK`) or little tested code.
const FAMILIES: &[c_int] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Where a program has two sets of system calls (x32), those of the second begin here.
const OTHER_SET: u32 = 0x4000_0000;

/// The seccomp filter for this process and its future children: it refuses the system calls that are useful for an
/// attack on the machine rather than for a build. It is a second line of defence: most of these calls need a capability
/// that no step has, and the filter also holds where a kernel bug would let them through. It refuses the listed calls
/// and allows the rest: an allow list would break the programs of a distribution's next release. The error is the end
/// of a sentence.
pub(super) fn filter() -> Result<(), String> {
    let programs = programs().map_err(|error| format!("the filter of system calls cannot be made: {error}"))?;
    programs.iter().try_for_each(|program| {
        apply_filter(program).map_err(|error| format!("the kernel takes no filter of system calls: {error}"))
    })
}

/// One filter per answer. Each also kills a process that makes system calls of another architecture, such as a 32-bit
/// program: they have other numbers.
fn programs() -> Result<[BpfProgram; 2], BackendError> {
    let whole = |calls: &[c_long]| calls.iter().map(|call| (*call, Vec::new())).collect::<Vec<_>>();
    let mut refused = whole(REFUSED);
    refused.push((libc::SYS_clone, new_namespaces(NEW_NAMESPACES)?));
    refused.push((libc::SYS_unshare, new_namespaces(&[NEW_NAMESPACES, &[NEW_TIME]].concat())?));
    refused.push((libc::SYS_socket, other_sockets()?));
    refused.push((libc::SYS_socketpair, other_sockets()?));
    let refused = compiled(refused, libc::EPERM)?;
    let mut absent = other_set_is_absent();
    absent.extend(compiled(whole(NOT_IMPLEMENTED), libc::ENOSYS)?);
    Ok([absent, refused])
}

fn compiled(rules: Vec<(i64, Vec<SeccompRule>)>, error: c_int) -> Result<BpfProgram, BackendError> {
    let answer = SeccompAction::Errno(error.unsigned_abs());
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules.into_iter().collect(), SeccompAction::Allow, answer, architecture)?.try_into()
}

fn new_namespaces(flags: &[c_int]) -> Result<Vec<SeccompRule>, BackendError> {
    let is_set = |flag: &c_int| {
        let bit = u64::from(flag.unsigned_abs());
        SeccompRule::new(vec![condition(0, SeccompCmpOp::MaskedEq(bit), bit)?])
    };
    flags.iter().map(is_set).collect()
}

/// Sockets of other families, and of netlink protocols other than that for addresses and routes, which host lookups
/// need.
fn other_sockets() -> Result<Vec<SeccompRule>, BackendError> {
    let number = |value: c_int| u64::from(value.unsigned_abs());
    let none_of_ours = FAMILIES.iter().map(|family| condition(0, SeccompCmpOp::Ne, number(*family)));
    Ok(vec![
        SeccompRule::new(none_of_ours.collect::<Result<_, _>>()?)?,
        SeccompRule::new(vec![
            condition(0, SeccompCmpOp::Eq, number(libc::AF_NETLINK))?,
            condition(2, SeccompCmpOp::Ne, number(libc::NETLINK_ROUTE))?,
        ])?,
    ])
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

/// Loads the number, and skips the answer unless the number is in the second set.
fn other_set_is_absent() -> BpfProgram {
    let instruction = |code: u32, jf, k| sock_filter { code: u16::try_from(code).unwrap_or_default(), jt: 0, jf, k };
    vec![
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, OTHER_SET),
        instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The answer of the filters to a call with this number. Like the kernel, it takes the strictest one.
    fn answer(call: u32) -> u32 {
        programs().unwrap().iter().map(|program| run(program, call)).min().unwrap()
    }

    /// Interprets the instructions of these filters, for a call whose arguments are all 0.
    fn run(program: &[sock_filter], call: u32) -> u32 {
        const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") { 0xC000_003E } else { 0xC000_00B7 };
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { jt } else { jf });
            match u32::from(code) {
                0x20 => value = [call, ARCHITECTURE].get(k as usize / 4).copied().unwrap_or_default(),
                0x54 => value &= k,
                0x05 => at += k as usize,
                0x15 => at += jump(value == k),
                0x25 => at += jump(value > k),
                0x35 => at += jump(value >= k),
                0x06 => return k,
                other => panic!("{other:#x}"),
            }
        }
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn calls_of_the_other_set_are_absent_and_those_of_an_attack_refused() {
        let number = |call: c_long| u32::try_from(call).unwrap();
        let error = |errno: c_int| libc::SECCOMP_RET_ERRNO | errno.unsigned_abs();
        assert_eq!(answer(number(libc::SYS_read)), libc::SECCOMP_RET_ALLOW);
        for call in [libc::SYS_read, libc::SYS_ptrace, libc::SYS_getpid] {
            assert_eq!(answer(OTHER_SET | number(call)), error(libc::ENOSYS), "{call}");
        }
        for call in [KEXEC_FILE_LOAD, OPEN_TREE_ATTR, libc::SYS_ptrace, libc::SYS_open_tree] {
            assert_eq!(answer(number(call)), error(libc::EPERM), "{call}");
        }
        assert_eq!(answer(number(libc::SYS_clone3)), error(libc::ENOSYS));
    }
}
