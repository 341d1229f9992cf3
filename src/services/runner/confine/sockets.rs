//! Whether a confined process reaches the sockets of others. The probe listens on two of the server's own, one in a directory
//! and one without a file (*abstract*), and the process that is confined tries to connect.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

/// In the data directory.
const FILE: &str = "probe.sock";
/// The names by which the confined process learns of the two.
const IN_DIRECTORY: &str = "directory";
const ABSTRACT: &str = "abstract";

/// Removed when this is dropped.
pub(super) struct ProbeSockets {
    dir: PathBuf,
    name: String,
    _listeners: [UnixListener; 2],
}

impl ProbeSockets {
    pub fn open(dir: &Path) -> io::Result<Self> {
        let file = dir.join(FILE);
        // One that a killed server has left.
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let name = format!("lockkeeper-probe-{:032x}", rand::random::<u128>());
        let in_directory = UnixListener::bind(by_descriptor(&descriptor(dir)?))?;
        let without_file = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        Ok(Self { dir: dir.to_owned(), name, _listeners: [in_directory, without_file] })
    }

    /// For the order of a process that is to [check].
    pub fn variables(&self) -> Vec<(String, String)> {
        let dir = self.dir.to_string_lossy().into_owned();
        vec![(IN_DIRECTORY.to_owned(), dir), (ABSTRACT.to_owned(), self.name.clone())]
    }
}

impl Drop for ProbeSockets {
    fn drop(&mut self) {
        fs::remove_file(self.dir.join(FILE)).ok();
    }
}

/// For a process that is confined: tries each socket of its order. The error says what steps can reach.
pub(super) fn check(variables: &[(String, String)]) -> Result<(), String> {
    let reached: Vec<_> = variables
        .iter()
        .filter_map(|(name, socket)| match name.as_str() {
            IN_DIRECTORY if reaches_file(Path::new(socket)).is_ok() => Some(
                "steps can connect to sockets in directories, such as those of D-Bus, of a container engine and of agents of \
                 the server's user, as far as permissions allow",
            ),
            ABSTRACT if reaches_abstract(socket).is_ok() => Some("steps can connect to abstract sockets"),
            _ => None,
        })
        .collect();
    if reached.is_empty() { Ok(()) } else { Err(reached.join("; ")) }
}

fn reaches_file(dir: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(by_descriptor(&descriptor(dir)?))
}

fn reaches_abstract(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Opened as a place only, which no rule about files restricts.
fn descriptor(dir: &Path) -> io::Result<OwnedFd> {
    Ok(open(dir, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// The name of a socket has at most 107 bytes, and the path of a data directory may be longer.
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
        let variables = sockets.variables();
        let reached = check(&variables).unwrap_err();
        assert!(reached.contains("in directories") && reached.ends_with("; steps can connect to abstract sockets"));
        drop(sockets);
        assert_eq!(check(&variables), Ok(()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
