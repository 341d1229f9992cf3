//! A real PostgreSQL for tests: on loopback, with a free port, a separate directory and a password.

#![allow(clippy::unwrap_used)]

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, getuid, kill_process};
use tempfile::TempDir;

use super::{Postgres, PostgresSettings};
use crate::engine::ports::free_port;

/// Debian's directory for its programs, which are not in the path.
const DEBIAN: &str = "/usr/lib/postgresql";
/// PostgreSQL does not run as root; this user exists everywhere.
const NOBODY: u32 = 65_534;
const PASSWORD: &str = "only-for-tests";

/// A running PostgreSQL, killed on drop.
pub struct PostgresServer {
    dir: TempDir,
    programs: PathBuf,
    port: u16,
    flags: Vec<String>,
    process: Option<Child>,
}

impl PostgresServer {
    /// Prints a note and returns `None` if PostgreSQL is not installed.
    pub fn start(flags: &[&str]) -> Option<PostgresServer> {
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        PostgresServer::start_with(&[], flags)
    }

    /// Creates these files in the server's folder, next to the folder of the data.
    pub fn start_with(files: &[(&str, &str)], flags: Vec<String>) -> Option<PostgresServer> {
        let Some(programs) = programs() else {
            eprintln!("skipped: PostgreSQL is not installed");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        if getuid().is_root() {
            chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let password_file = dir.path().join("password");
        std::fs::write(&password_file, PASSWORD).unwrap();
        for (name, content) in files {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            if getuid().is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let mut server = PostgresServer { dir, programs, port: free_port(), flags, process: None };
        let mut make = server.command("initdb");
        make.args(["--no-sync", "--no-instructions", "--username=lockkeeper", "--auth=scram-sha-256"]);
        make.args(["--encoding=UTF8", "--locale=C", &format!("--pwfile={}", password_file.display())]);
        let made = make.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        server.restart();
        Some(server)
    }

    pub fn url(&self) -> String {
        format!("postgresql://lockkeeper:{PASSWORD}@127.0.0.1:{}/postgres", self.port)
    }

    /// An engine with its own connection.
    pub fn engine(&self) -> Postgres {
        Postgres::new(&PostgresSettings { url: self.url(), tls: None, quota_bytes: 1 << 30 }).unwrap()
    }

    /// `kill -9` of the server. Its child processes notice and end.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Suspends the server and its connection processes without closing their sockets, or resumes them.
    pub fn freeze(&self, frozen: bool) {
        let server = self.process.as_ref().unwrap().id();
        let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap();
        let children = children.split_whitespace().map(|child| child.parse::<u32>().unwrap());
        for process in children.chain([server]) {
            let process = Pid::from_raw(process.cast_signed()).unwrap();
            // A child may have ended in the meantime.
            kill_process(process, if frozen { Signal::STOP } else { Signal::CONT }).ok();
        }
    }

    /// Restarts the server with its data, and waits until it answers. A new server does not start while a child of the
    /// killed one lives, so the start is retried.
    pub fn restart(&mut self) {
        self.process = Some(self.spawn());
        for _ in 0..600 {
            let asked = self.command("pg_isready").args(["--quiet", "--host=127.0.0.1"]).arg(self.port_flag()).status();
            if asked.unwrap().success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
            if self.process.as_mut().unwrap().try_wait().unwrap().is_some() {
                self.process = Some(self.spawn());
            }
        }
        panic!("PostgreSQL did not start within 30 s");
    }

    fn spawn(&self) -> Child {
        let listen = format!("listen_addresses=127.0.0.1,port={},unix_socket_directories=", self.port);
        let mut command = self.command("postgres");
        for setting in listen.split(',').map(str::to_owned).chain(self.flags.clone()) {
            command.args(["-c", &setting]);
        }
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn port_flag(&self) -> String {
        format!("--port={}", self.port)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.env("PGDATA", self.dir.path().join("data")).current_dir(self.dir.path()).stdin(Stdio::null());
        if getuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The newest installed version.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).ok()?;
    let programs = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    let has_server = |programs: &Path| programs.join("postgres").exists() && programs.join("initdb").exists();
    programs.filter(|programs| has_server(programs)).max()
}
