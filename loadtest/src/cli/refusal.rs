//! Owns what must be right before the first request, for every command that makes load.

use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::scenario::ScenarioError;
use crate::server::running::ProcessError;
use crate::server::target::TargetError;
use crate::server::token::TokenError;

/// The server's bound on identifiers in paths.
pub const MAX_IDENTIFIER: usize = 63;
/// Open files that are not connections: the standard streams, epoll and waker of every runtime, the report.
const SPARE_FILES: u64 = 300;

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("which server? Give --server PATH, a lockkeeper program to start, or --target URL, a server that runs")]
    NoServer,
    #[error("{0} needs a server of its own: give --server PATH instead of --target")]
    NeedsOwnServer(String),
    #[error("there is no program at {0}: {1}")]
    NoProgram(PathBuf, &'static str),
    #[error("--{0} {1:?} cannot stand in a path: letters, digits, '.', '_', '-', at most {2}, first a letter or digit")]
    Identifier(&'static str, String, usize),
    #[error("{connections} connections need more open files than the limit of {limit}: raise it with `ulimit -n`")]
    TooFewFiles { connections: u32, limit: u64 },
    #[error("cannot read the CPU time of the server's process {0}: {1}")]
    ServerPid(u32, std::io::Error),
    #[error("--names {0} is fewer than the {1} clients, each of which needs one")]
    FewNames(u32, u32),
    #[error("{0} is in memory, where nothing is durable: give --dir on a disk")]
    InMemory(PathBuf),
    #[error("cannot use the directory {0}: {1}")]
    Directory(PathBuf, std::io::Error),
    #[error("cannot write {0}: {1}")]
    Unwritable(PathBuf, std::io::Error),
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
}

/// What is not an identifier could end the request line and smuggle a second request.
pub fn identifier(option: &'static str, text: &str, longest: usize) -> Result<(), Refusal> {
    let fits = text.len() <= longest
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if fits { Ok(()) } else { Err(Refusal::Identifier(option, text.to_owned(), longest)) }
}

/// The members of a cluster's etcd are started here.
pub fn has_etcd() -> Result<(), Refusal> {
    match Command::new("etcd").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(_) => Err(Refusal::NoProgram("etcd".into(), "install etcd, which a cluster needs")),
    }
}

/// Takes what the system lets us take; a server that we start has the same limit.
pub fn enough_files(connections: u32) -> Result<(), Refusal> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where that is not allowed, the limit stays as it is, and is judged next.
    _ = setrlimit(Resource::Nofile, limit);
    match getrlimit(Resource::Nofile).current.filter(|limit| *limit < u64::from(connections) + SPARE_FILES) {
        Some(limit) => Err(Refusal::TooFewFiles { connections, limit }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_break_the_request_line_is_refused() {
        for name in ["", "-a", "a b", "a/b", "a\r\n", "ä"] {
            assert!(identifier("pipeline", name, MAX_IDENTIFIER).is_err(), "{name:?}");
        }
        assert!(identifier("pipeline", "web-2.x_y", MAX_IDENTIFIER).is_ok());
    }
}
