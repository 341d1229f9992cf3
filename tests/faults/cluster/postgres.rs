//! A real PostgreSQL: on loopback, with a free port, and a separate directory and password.

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::support::waiting::wait_until;

/// The directory of its programs on Debian, which is not in the PATH.
const DEBIAN: &str = "/usr/lib/postgresql";
/// PostgreSQL does not run as root; this user exists everywhere.
const NOBODY: u32 = 65_534;
const PASSWORD: &str = "only-for-tests";

/// Killed when dropped.
pub struct PostgresServer {
    dir: TempDir,
    programs: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl PostgresServer {
    /// `None`, with a message, if PostgreSQL is not installed.
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            println!("skipped: PostgreSQL is not installed");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        if is_root() {
            chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let password = dir.path().join("password");
        std::fs::write(&password, PASSWORD).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Self { dir, programs, port, process: None };
        let mut make = server.command("initdb");
        make.args(["--no-sync", "--no-instructions", "--username=lockkeeper", "--auth=scram-sha-256"]);
        make.args(["--encoding=UTF8", "--locale=C", &format!("--pwfile={}", password.display())]);
        let made = make.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut serve = server.command("postgres");
        serve.args([
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            &format!("port={port}"),
            "-c",
            "unix_socket_directories=",
        ]);
        server.process = Some(serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let answers = || {
            let mut ask = server.command("pg_isready");
            ask.args(["--quiet", "--host=127.0.0.1", &format!("--port={port}")]).status().unwrap().success()
        };
        wait_until("PostgreSQL answers", answers);
        Some(server)
    }

    pub fn url(&self) -> String {
        format!("postgresql://lockkeeper:{PASSWORD}@127.0.0.1:{}/postgres", self.port)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.env("PGDATA", self.dir.path().join("data")).current_dir(self.dir.path()).stdin(Stdio::null());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

fn is_root() -> bool {
    Path::new("/proc/self").metadata().unwrap().uid() == 0
}

/// The newest version.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).ok()?;
    let programs = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    let has_server = |programs: &PathBuf| programs.join("postgres").exists() && programs.join("initdb").exists();
    programs.filter(has_server).max()
}
