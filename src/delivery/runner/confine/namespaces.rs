//! New namespaces for a step's init and everything below it, and one without a network if the step has none.

use std::fs;
use std::io::{self, Read};

use nix::sched::{CloneFlags, unshare};
use rustix::process::{getgid, getuid};
use rustix::thread::{CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities};
use socket2::{Domain, Socket, Type};

use super::super::protocol::StepNetwork;

/// Makes the next child of this process the first process of a new PID namespace. An ordinary user may do that only in
/// a user namespace, which this process then enters too; its capabilities there end when the init is done with them.
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

/// Lets the init, a separate program, mount file systems in its namespace and bring up the loopback.
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

/// The network of a confined step: the machine's, or none. Must be called while this is still allowed. The error is the
/// end of a sentence.
pub(super) fn enter_network(network: StepNetwork) -> Result<(), String> {
    match network {
        StepNetwork::Open => Ok(()),
        StepNetwork::None => {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("a network namespace cannot be had: {error}"))?;
            bring_up_loopback().map_err(|error| format!("its loopback cannot be brought up: {error}"))
        }
    }
}

/// Programs use the loopback to connect to themselves. Uses the kernel's protocol for routes: sets the flag `IFF_UP` of
/// the first interface, which is always `lo`.
fn bring_up_loopback() -> io::Result<()> {
    const AF_NETLINK: i32 = 16;
    let mut socket = Socket::new(Domain::from(AF_NETLINK), Type::RAW, None)?;
    socket.send(&up_message())?;
    let mut answer = [0; 64];
    let length = socket.read(&mut answer)?;
    match error_of(&answer[..length]) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(-error)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn up_message() -> Vec<u8> {
    const RTM_NEWLINK: u16 = 16;
    const NLM_F_REQUEST: u16 = 1;
    const NLM_F_ACK: u16 = 4;
    const LOOPBACK: u32 = 1;
    const IFF_UP: u32 = 1;
    const BYTES: u32 = 32;
    let mut message = Vec::with_capacity(BYTES as usize);
    message.extend_from_slice(&BYTES.to_ne_bytes());
    message.extend_from_slice(&RTM_NEWLINK.to_ne_bytes());
    message.extend_from_slice(&(NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    // The numbers of request and sender, then family, padding and type of the interface: all may be 0.
    message.extend_from_slice(&[0; 12]);
    for word in [LOOPBACK, IFF_UP, IFF_UP] {
        message.extend_from_slice(&word.to_ne_bytes());
    }
    message
}

/// After a header of 16 bytes: 0, or a negated error number.
fn error_of(answer: &[u8]) -> Option<i32> {
    Some(i32::from_ne_bytes(*answer.get(16..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_length_that_it_says() {
        let message = up_message();
        assert_eq!((message.len(), message[0]), (32, 32));
    }

    #[test]
    fn an_answer_that_is_cut_off_is_no_success() {
        let refused = (-1_i32).to_ne_bytes();
        assert_eq!(error_of(&[&[0; 16][..], &refused].concat()), Some(-1));
        assert_eq!(error_of(&[0; 20]), Some(0));
        assert_eq!(error_of(&[0; 19]), None);
        assert_eq!(error_of(&[]), None);
    }
}
