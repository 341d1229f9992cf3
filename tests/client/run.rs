//! `lockkeeper run`: a command holds an environment, and never continues without it.

mod children;
mod claiming;
mod crowd;
mod losing;
mod noticing;
mod relay;
mod running;
mod signals;

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::{ADMIN_TOKEN, lockkeeper};

/// Only makes a test fail instead of hang if a program never ends.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);
/// The variables of CIs that may run these tests.
const OF_CIS: [&str; 5] = ["GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL", "BUILDKITE", "CIRCLECI"];

/// `lockkeeper run` with these arguments, as the admin, for the pipeline `web`.
fn run(address: &str, arguments: &[&str]) -> Command {
    let mut command = command(address, &["run"]);
    command.args(arguments);
    command
}

/// The client with these arguments, as the admin, for the pipeline `web`.
fn command(address: &str, arguments: &[&str]) -> Command {
    let plain = lockkeeper(arguments);
    // In the background of a script, SIGINT and SIGQUIT are ignored, and the program would keep ignoring them.
    let mut command = Command::new("env");
    command.arg("--default-signal").arg(plain.get_program()).args(plain.get_args()).stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("LOCKKEEPER_URL", address).env("LOCKKEEPER_TOKEN", ADMIN_TOKEN);
    command.env("LOCKKEEPER_PIPELINE", "web").env("XDG_CONFIG_HOME", "/nonexistent");
    for name in OF_CIS {
        command.env_remove(name);
    }
    command
}

/// The same with a script for `sh`.
fn run_script(address: &str, arguments: &[&str], script: &str) -> Command {
    let mut all = arguments.to_vec();
    all.extend(["--", "sh", "-c", script]);
    run(address, &all)
}

/// Exit code as in a shell, stdout, stderr.
fn ended(output: &Output) -> (i32, String, String) {
    let code = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (code, text(&output.stdout), text(&output.stderr))
}

/// A concurrently running program, killed when this is dropped.
struct Running {
    child: Option<Child>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { child: Some(child) }
    }

    fn pid(&self) -> i32 {
        self.child.as_ref().unwrap().id().try_into().unwrap()
    }

    fn signal(&self, signal: &str) {
        send(signal, self.pid());
    }

    /// Waits for its end.
    fn end(mut self) -> (i32, String, String) {
        let child = self.child.as_mut().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("it never ended: {:?}", ended(&self.child.take().unwrap().wait_with_output().unwrap()));
            }
            std::thread::sleep(PAUSE);
        }
        ended(&self.child.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

fn send(signal: &str, pid: i32) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).stderr(Stdio::null()).status().unwrap();
    assert!(sent.success(), "{signal} to {pid}");
}

/// A directory for notes from a command to the test.
struct Notes {
    dir: TempDir,
}

impl Notes {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn write(&self, name: &str) {
        std::fs::File::create(self.at(name)).unwrap().write_all(b"x\n").unwrap();
    }

    fn exists(&self, name: &str) -> bool {
        self.at(name).exists()
    }

    /// Waits until a command has written a whole line there.
    async fn read(&self, name: &str) -> String {
        until(&format!("a line in {name}"), || {
            std::fs::read_to_string(self.at(name)).ok().filter(|text| text.ends_with('\n'))
        })
        .await
        .trim()
        .to_owned()
    }

    async fn pid(&self, name: &str) -> i32 {
        self.read(name).await.parse().unwrap()
    }
}

/// Waits until `found` returns a value.
async fn until<T>(what: &str, found: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether it runs: a zombie does not.
fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

async fn until_gone(pid: i32) {
    until(&format!("process {pid} is gone"), || (!is_alive(pid)).then_some(())).await;
}

/// The processes that this one has started, transitively.
fn descendants(of: i32) -> Vec<i32> {
    let listed = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = listed.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parent = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(") ").next()?.split(' ').nth(1)?.parse::<i32>().ok()
    };
    let all: Vec<(i32, i32)> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut family = vec![of];
    let mut place = 0;
    while let Some(next) = family.get(place).copied() {
        family.extend(all.iter().filter(|(_, parent)| *parent == next).map(|(pid, _)| *pid));
        place += 1;
    }
    family.split_off(1)
}
