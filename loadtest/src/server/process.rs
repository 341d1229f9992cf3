//! Owns a server that the load test runs itself: on a free port of this machine, with a data directory and a token of its
//! own. It ends with us, whatever happens short of our own `kill -9`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::server::token::Token;
use crate::wire::connection::Connection;

/// A million environments take a few seconds; a debug build on a busy machine some more.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// It drains for 20 s at most by default.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(2);
/// How much of its log is shown when it does not start.
const SHOWN_LOG_BYTES: usize = 4_096;

/// The server that runs now, for whoever quits at once; 0 if none does. Tests run several in one process, but quit none.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// How it is started.
#[derive(Clone, Debug)]
pub struct Launch {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Its settings as environment variables.
    pub variables: Vec<(String, String)>,
    pub data_dir: Option<PathBuf>,
    pub token: Token,
}

pub struct Process {
    launch: Launch,
    home: TempDir,
    data_dir: PathBuf,
    address: SocketAddr,
    child: Option<Child>,
}

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("this needs a server of our own: give --server PATH")]
    NotOurs,
    #[error("cannot start {0}: {1}")]
    Spawn(PathBuf, std::io::Error),
    #[error("cannot make a directory for the server: {0}")]
    Home(std::io::Error),
    #[error("the server did not start: {0}")]
    NotStarted(String),
    #[error("the server did not become ready in {} s", START_TIMEOUT.as_secs())]
    NotReady,
    #[error("cannot signal the server: {0}")]
    Signal(std::io::Error),
    #[error("the server did not end in {} s and was killed", STOP_TIMEOUT.as_secs())]
    NotEnded,
    #[error("the server ended with {0}")]
    EndedBadly(std::process::ExitStatus),
}

impl Process {
    pub async fn start(launch: Launch) -> Result<Self, ProcessError> {
        let home = tempfile::Builder::new().prefix("lockkeeper-load-").tempdir().map_err(ProcessError::Home)?;
        let data_dir = launch.data_dir.clone().unwrap_or_else(|| home.path().join("data"));
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut process = Self { launch, home, data_dir, address, child: None };
        process.start_again().await?;
        Ok(process)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub fn kill(&mut self) -> Result<(), ProcessError> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        RUNNING.store(0, Ordering::Relaxed);
        child.kill().and_then(|()| child.wait()).map_err(ProcessError::Signal)?;
        Ok(())
    }

    /// The first time on any free port, then on the same one, so that clients find it again.
    pub async fn start_again(&mut self) -> Result<Duration, ProcessError> {
        let began = Instant::now();
        let log_bytes_before = std::fs::metadata(self.log_path()).map_or(0, |log| log.len() as usize);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_path());
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log.map_err(ProcessError::Home)?);
        let spawned = command.spawn().map_err(|error| ProcessError::Spawn(self.launch.program.clone(), error));
        let child = self.child.insert(spawned?);
        RUNNING.store(child.id(), Ordering::Relaxed);
        let stdout = child.stdout.take();
        // Its first lines come when it serves; reading them blocks.
        let greeted =
            tokio::task::spawn_blocking(move || stdout.and_then(|stdout| served_address(BufReader::new(stdout))));
        match tokio::time::timeout(START_TIMEOUT, greeted).await.ok().and_then(Result::ok).flatten() {
            Some(address) => self.address = address,
            None => {
                self.kill()?;
                return Err(ProcessError::NotStarted(self.log_since(log_bytes_before)));
            }
        }
        self.until_ready(began).await?;
        Ok(began.elapsed())
    }

    pub async fn stop(&mut self) -> Result<(), ProcessError> {
        let Some(child) = &mut self.child else { return Ok(()) };
        signal(child.id(), Signal::TERM).map_err(ProcessError::Signal)?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            if let Some(status) = child.try_wait().map_err(ProcessError::Signal)? {
                RUNNING.store(0, Ordering::Relaxed);
                self.child = None;
                return if status.success() { Ok(()) } else { Err(ProcessError::EndedBadly(status)) };
            }
            if Instant::now() >= deadline {
                self.kill()?;
                return Err(ProcessError::NotEnded);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.launch.program);
        command.arg("serve").arg("--listen").arg(self.address.to_string());
        command.arg("--data-dir").arg(&self.data_dir).args(&self.launch.arguments);
        // Ours, such as LOCKKEEPER_TOKEN, are none of its settings.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LOCKKEEPER_")) {
            command.env_remove(name);
        }
        command.env("LOCKKEEPER_BOOTSTRAP_TOKEN", self.launch.token.reveal());
        command.env("LOCKKEEPER_RATE_LIMIT", "off");
        command.envs(self.launch.variables.iter().map(|(name, value)| (name, value)));
        // In a group of its own, a Ctrl-C is for us alone, and the server is still there for the last reads.
        command.process_group(0);
        command
    }

    async fn until_ready(&mut self, began: Instant) -> Result<(), ProcessError> {
        let request = format!("GET /readyz HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        while began.elapsed() < START_TIMEOUT {
            if let Ok(mut connection) = Connection::open(self.address).await
                && matches!(connection.exchange(request.as_bytes()).await, Ok(200))
            {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        self.kill()?;
        Err(ProcessError::NotReady)
    }

    fn log_path(&self) -> PathBuf {
        self.home.path().join("server.log")
    }

    fn log_since(&self, start: usize) -> String {
        let log = std::fs::read(self.log_path()).unwrap_or_default();
        let start = start.max(log.len().saturating_sub(SHOWN_LOG_BYTES)).min(log.len());
        String::from_utf8_lossy(&log[start..]).trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has gone already, or there is nobody left to tell.
        _ = self.kill();
    }
}

/// For whoever quits without unwinding.
pub fn kill_running() {
    let pid = RUNNING.load(Ordering::Relaxed);
    if pid != 0 {
        _ = signal(pid, Signal::KILL);
    }
}

fn signal(pid: u32, signal: Signal) -> std::io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidInput, "no such process"))?;
    Ok(kill_process(pid, signal)?)
}

/// From the line that says where it serves; none if it ends before. The rest is read to its end, so that the server never
/// finds its stdout closed or full.
fn served_address(mut stdout: impl BufRead + Send + 'static) -> Option<SocketAddr> {
    let mut line = String::new();
    let address = loop {
        line.clear();
        if stdout.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some((_, url)) = line.split_once("serves on http://") {
            break url.trim().parse().ok()?;
        }
    };
    std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_the_greeting() {
        let greeting = b"\nLockkeeper 0.1.0 serves on http://127.0.0.1:4711\nAPI explorer: ...\n";
        assert_eq!(served_address(&greeting[..]), Some(SocketAddr::from(([127, 0, 0, 1], 4711))));
        assert_eq!(served_address(&b"something else\n"[..]), None);
    }

    #[tokio::test]
    async fn a_program_that_does_not_serve_is_told_with_its_own_words() {
        let launch = Launch {
            program: "/bin/sh".into(),
            arguments: Vec::new(),
            variables: Vec::new(),
            data_dir: None,
            token: Token::random(),
        };
        let error = Process::start(launch).await.err().expect("sh knows no `serve`");
        assert!(matches!(&error, ProcessError::NotStarted(why) if why.contains("serve")), "{error}");
    }
}
