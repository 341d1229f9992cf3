//! Tests whether a confined process can connect to others' sockets. The probe listens on two sockets of the server, one
//! in a directory and one without a file (*abstract*), and the confined process tries to connect.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use crate::if_present;

/// In the data directory.
const FILE: &str = "probe.sock";
/// The variables that tell the confined process the two sockets.
const IN_DIRECTORY: &str = "directory";
const ABSTRACT: &str = "abstract";
/// A socket of another program.
const OTHER: &str = "other";
/// The kernel's list of sockets; the last field is the path of a socket in a directory.
const LISTED: &str = "/proc/net/unix";
const OTHERS_MAX: usize = 1_000;
const NAMED_MAX: usize = 5;

/// The sockets of the probe, removed when dropped.
pub(super) struct ProbeSockets {
    dir: PathBuf,
    name: String,
    _listeners: [UnixListener; 2],
}

impl ProbeSockets {
    pub fn open(dir: &Path) -> io::Result<Self> {
        let file = dir.join(FILE);
        // A leftover of a killed server.
        if_present(fs::remove_file(&file))?;
        let name = format!("lockkeeper-probe-{:032x}", rand::random::<u128>());
        let in_directory = UnixListener::bind(by_descriptor(&descriptor(dir)?))?;
        let without_file = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        Ok(Self { dir: dir.to_owned(), name, _listeners: [in_directory, without_file] })
    }

    /// Variables for a process that is to [check]: the probe's sockets and the current sockets of this machine that are
    /// in directories, without those below paths that an operator has added.
    pub fn variables(&self, added: &[&Path]) -> Vec<(String, String)> {
        let dir = self.dir.to_string_lossy().into_owned();
        let listed = fs::read_to_string(LISTED).unwrap_or_default();
        let is_others = |path: &&str| !added.iter().any(|added| Path::new(path).starts_with(added));
        let others = in_directories(&listed).filter(is_others).take(OTHERS_MAX);
        let others = others.map(|path| (OTHER.to_owned(), path.to_owned()));
        [(IN_DIRECTORY.to_owned(), dir), (ABSTRACT.to_owned(), self.name.clone())].into_iter().chain(others).collect()
    }
}

impl Drop for ProbeSockets {
    fn drop(&mut self) {
        fs::remove_file(self.dir.join(FILE)).ok();
    }
}

/// Runs in a confined process: tries each socket of its order. The error says which ones steps can reach.
pub(super) fn check(variables: &[(String, String)]) -> Result<(), String> {
    let (mut reached, mut others) = (Vec::new(), BTreeSet::new());
    for (name, socket) in variables {
        match name.as_str() {
            IN_DIRECTORY if reaches_file(Path::new(socket)).is_ok() => reached.push(
                "steps can connect to sockets in directories, such as those of D-Bus, of a container engine and of agents of \
                 the server's user, as far as permissions allow"
                    .to_owned(),
            ),
            ABSTRACT if reaches_abstract(socket).is_ok() => {
                reached.push("steps can connect to abstract sockets".to_owned());
            }
            OTHER if would_reach(Path::new(socket)) => _ = others.insert(socket.as_str()),
            _ => {}
        }
    }
    if !others.is_empty() {
        let named: Vec<_> = others.iter().take(NAMED_MAX).copied().collect();
        let more = others.len() - named.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        reached.push(format!("steps can connect to {}{more}", named.join(", ")));
    }
    if reached.is_empty() { Ok(()) } else { Err(reached.join("; ")) }
}

fn in_directories(listed: &str) -> impl Iterator<Item = &str> {
    // Seven fields, and the path, which may contain spaces.
    let paths = listed.lines().skip(1).filter_map(|line| line.find(" /").map(|at| &line[at + 1..]));
    paths.filter(|path| !path.starts_with("/proc/"))
}

/// Whether the kernel would let this process connect. The type does not match, so the kernel answers without
/// connecting.
fn would_reach(path: &Path) -> bool {
    let tried = UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    match tried.map_err(|error| Errno::from_io_error(&error)) {
        Ok(()) | Err(Some(Errno::PROTOTYPE)) => true,
        Err(_) => false,
    }
}

fn reaches_file(dir: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(by_descriptor(&descriptor(dir)?))
}

fn reaches_abstract(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Opened as a path only (`O_PATH`), which no file rule restricts.
fn descriptor(dir: &Path) -> io::Result<OwnedFd> {
    Ok(open(dir, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// The name of a socket has at most 107 bytes; the path of a data directory may be longer.
fn by_descriptor(dir: &OwnedFd) -> String {
    format!("/proc/self/fd/{}/{FILE}", dir.as_raw_fd())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_can_be_reached_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let sockets = ProbeSockets::open(dir.path()).unwrap();
        // Only the two sockets of this test.
        let variables = sockets.variables(&[Path::new("/")]);
        let reached = check(&variables).unwrap_err();
        assert!(reached.contains("in directories") && reached.ends_with("; steps can connect to abstract sockets"));
        drop(sockets);
        assert_eq!(check(&variables), Ok(()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn sockets_of_others_are_named_unless_an_operator_has_added_them() {
        let dir = tempfile::tempdir().unwrap();
        let (stream, datagram) = (dir.path().join("one stream"), dir.path().join("datagram"));
        let _stream = UnixListener::bind(&stream).unwrap();
        let _datagram = UnixDatagram::bind(&datagram).unwrap();
        let probe = tempfile::tempdir().unwrap();
        let sockets = ProbeSockets::open(probe.path()).unwrap();
        let variables = sockets.variables(&[]);
        drop(sockets);
        let own: Vec<_> = variables.into_iter().filter(|(_, path)| Path::new(path).starts_with(dir.path())).collect();
        let named = format!("steps can connect to {}, {}", datagram.display(), stream.display());
        assert_eq!(check(&own), Err(named));
        let sockets = ProbeSockets::open(probe.path()).unwrap();
        let added = sockets.variables(&[dir.path()]);
        assert!(!added.iter().any(|(_, path)| Path::new(path).starts_with(dir.path())));
    }
}
