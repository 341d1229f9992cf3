//! Starts the peers for a comparison with an embedded script, and ensures that no peer is left running, however the
//! comparison ends.

use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, WaitOptions, set_child_subreaper, waitpid};

use crate::compare::plan::System;

/// The script that starts each peer; embedded in this program, so that its version always fits.
const PEERS: &str = include_str!("../../peers");
/// Number of lines of a failed peer's output to repeat.
const LAST_LINES: usize = 10;

#[derive(Debug, thiserror::Error)]
#[error("cannot run the script that starts the peers: {0}")]
pub struct PeersError(io::Error);

/// The peers that were started.
pub struct Peers {
    script: std::path::PathBuf,
    directory: std::path::PathBuf,
    pub started: Vec<Started>,
    /// The systems that were left out, with the reasons.
    pub left_out: Vec<(System, String)>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Started {
    pub system: System,
    pub address: SocketAddr,
    pub pid: u32,
    /// Only set for peers that need one.
    pub user: Option<String>,
    pub password_file: Option<String>,
}

fn last_lines(words: &str) -> String {
    let lines: Vec<&str> = words.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

impl Peers {
    /// Starts the installed peers. A peer that cannot be started is left out with a reason.
    pub fn start(wanted: &[System], directory: &Path) -> Result<Self, PeersError> {
        // Processes started by the script become our children when it ends, so that we can wait for them to exit.
        set_child_subreaper(Some(rustix::process::getpid())).ok();
        let script = directory.join("peers.sh");
        std::fs::write(&script, PEERS).map_err(PeersError)?;
        // Created before the first start, so that dropping it stops every started peer.
        let mut peers = Self { script, directory: directory.join("peers"), started: Vec::new(), left_out: Vec::new() };
        for system in wanted {
            let Some(name) = script_name(*system) else { continue };
            let output = peers.script("start").arg(name).output().map_err(PeersError)?;
            match parse_started(*system, &String::from_utf8_lossy(&output.stdout)) {
                Ok(started) => peers.started.push(started),
                Err(reason) if reason.is_empty() => {
                    peers.left_out.push((*system, last_lines(&String::from_utf8_lossy(&output.stderr))));
                }
                Err(reason) => peers.left_out.push((*system, reason)),
            }
        }
        Ok(peers)
    }

    fn script(&self, verb: &str) -> Command {
        let mut command = Command::new("bash");
        command.arg(&self.script).arg(verb).arg(&self.directory).stdin(Stdio::null()).process_group(0);
        command
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        match self.script("stop").output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => eprint!("{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => eprintln!("the peers cannot be stopped: {error}"),
        }
        for started in &self.started {
            if let Some(pid) = Pid::from_raw(started.pid.cast_signed()) {
                waitpid(Some(pid), WaitOptions::NOHANG).ok();
            }
        }
    }
}

fn script_name(system: System) -> Option<&'static str> {
    match system {
        System::Redis => Some("redis"),
        System::Postgres => Some("postgres"),
        System::Etcd => Some("etcd"),
        System::Lockkeeper | System::Bare | System::Cluster | System::EtcdCluster => None,
    }
}

/// Parses `NAME port=… pid=… [user=… password-file=…]`; the error is the reason after `NAME missing`, or empty if there
/// is no line.
fn parse_started(system: System, printed: &str) -> Result<Started, String> {
    let line = printed.lines().next().unwrap_or_default();
    let (_, rest) = line.split_once(' ').ok_or_else(String::new)?;
    if let Some(reason) = rest.strip_prefix("missing ") {
        return Err(reason.to_owned());
    }
    let value = |key: &str| rest.split(' ').find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
    let number = || format!("cannot parse its line: {line}");
    let port: u16 = value("port").and_then(|port| port.parse().ok()).ok_or_else(number)?;
    let pid = value("pid").and_then(|pid| pid.parse().ok()).ok_or_else(number)?;
    let own = |key| value(key).map(str::to_owned);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    Ok(Started { system, address, pid, user: own("user"), password_file: own("password-file") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_prints_is_read() {
        let line = "postgres port=5432 pid=43 user=postgres password-file=/d/p\n";
        let started = parse_started(System::Postgres, line).expect("started");
        assert_eq!((started.address.port(), started.pid), (5432, 43));
        assert_eq!((started.user.as_deref(), started.password_file.as_deref()), (Some("postgres"), Some("/d/p")));
        assert_eq!(parse_started(System::Etcd, "etcd missing not installed\n"), Err("not installed".to_owned()));
        assert_eq!(parse_started(System::Etcd, ""), Err(String::new()));
        assert!(parse_started(System::Redis, "redis port=x pid=1\n").is_err());
    }

    #[test]
    fn the_last_words_are_short() {
        let words: String = (0..100).map(|number| format!("{number}\n")).collect();
        assert!(last_lines(&words).starts_with("90\n"));
        assert_eq!(last_lines("one"), "one");
    }
}
