//! Owns a child process that serves, such as a Lockkeeper on a free port with a separate data directory and token. It
//! runs in a separate process group, can be killed and restarted, and ends with us unless we are killed with `kill -9`.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::sync::locked;
use crate::wire::{Connection, Token};

/// The time limit for a start. A million environments take a few seconds; a debug build on a busy machine takes longer.
pub const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The time limit for a stop: the server drains for at most 20 s by default.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
pub const POLL: Duration = Duration::from_millis(2);
/// Bytes of the log to show when the server does not start.
const SHOWN_LOG_BYTES: usize = 4_096;

/// All running processes, to kill on an immediate exit.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

pub struct Running {
    address: SocketAddr,
    child: Option<Child>,
}

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("this scenario starts its own server: give --server PATH")]
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
    EndedBadly(ExitStatus),
    #[error("etcd did not become ready: {0}")]
    EtcdNotReady(String),
}

impl Running {
    /// Waits until the program prints its address. Its stderr is appended to the log.
    pub async fn start(mut command: Command, log: &Path) -> Result<Self, ProcessError> {
        let said_before = std::fs::metadata(log).map_or(0, |log| log.len() as usize);
        command.stdout(Stdio::piped());
        let mut started = Self::spawn(command, SocketAddr::from(([127, 0, 0, 1], 0)), log)?;
        let stdout = started.child.as_mut().and_then(|child| child.stdout.take());
        // The program prints its first lines once it serves; reading them blocks.
        let greeted = tokio::task::spawn_blocking(move || served_address(BufReader::new(stdout?)));
        match tokio::time::timeout(START_TIMEOUT, greeted).await.ok().and_then(Result::ok).flatten() {
            Some(address) => started.address = address,
            None => {
                started.kill()?;
                return Err(ProcessError::NotStarted(last_words(log, said_before)));
            }
        }
        Ok(started)
    }

    /// Starts a program with a fixed address. Does not wait until it serves.
    pub fn spawn(mut command: Command, address: SocketAddr, log: &Path) -> Result<Self, ProcessError> {
        let stderr = std::fs::OpenOptions::new().create(true).append(true).open(log).map_err(ProcessError::Home)?;
        // In a separate process group, so that Ctrl-C does not reach the server, which still answers the last reads.
        command.stdin(Stdio::null()).stderr(stderr).process_group(0);
        let program = PathBuf::from(command.get_program());
        let child = command.spawn().map_err(|error| ProcessError::Spawn(program, error))?;
        locked(&RUNNING).push(child.id());
        Ok(Self { address, child: Some(child) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// None once the process has ended.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The exit status, if the process has ended on its own since the last call.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, ProcessError> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let ended = child.try_wait().map_err(ProcessError::Signal)?;
        if ended.is_some() {
            forget(child.id());
            self.child = None;
        }
        Ok(ended)
    }

    pub fn kill(&mut self) -> Result<(), ProcessError> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        forget(child.id());
        child.kill().and_then(|()| child.wait()).map_err(ProcessError::Signal)?;
        Ok(())
    }

    /// Whether a GET of this path returns 200.
    pub async fn is_answering(&self, path: &str) -> bool {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        let Ok(mut connection) = Connection::open(self.address).await else { return false };
        matches!(connection.exchange(request.as_bytes()).await, Ok(200))
    }

    /// Suspends the process until it is resumed, as on an overloaded machine.
    pub fn pause(&self) -> Result<(), ProcessError> {
        self.send(Signal::STOP)
    }

    pub fn resume(&self) -> Result<(), ProcessError> {
        self.send(Signal::CONT)
    }

    fn send(&self, sent: Signal) -> Result<(), ProcessError> {
        self.pid().map_or(Ok(()), |pid| signal(pid, sent).map_err(ProcessError::Signal))
    }

    pub async fn stop(&mut self) -> Result<(), ProcessError> {
        if self.child.is_none() {
            return Ok(());
        }
        self.send(Signal::TERM)?;
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            if let Some(status) = self.ended()? {
                return if status.success() { Ok(()) } else { Err(ProcessError::EndedBadly(status)) };
            }
            if Instant::now() >= deadline {
                self.kill()?;
                return Err(ProcessError::NotEnded);
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Either the process has ended already, or the error cannot be reported here.
        _ = self.kill();
    }
}

/// Kills all processes, before an exit without unwinding.
pub fn kill_all() {
    for pid in locked(&RUNNING).iter() {
        _ = signal(*pid, Signal::KILL);
    }
}

fn forget(pid: u32) {
    locked(&RUNNING).retain(|known| *known != pid);
}

fn signal(pid: u32, signal: Signal) -> std::io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidInput, "no such process"))?;
    Ok(kill_process(pid, signal)?)
}

pub fn last_words(log: &Path, start: usize) -> String {
    let log = std::fs::read(log).unwrap_or_default();
    let start = start.max(log.len().saturating_sub(SHOWN_LOG_BYTES)).min(log.len());
    String::from_utf8_lossy(&log[start..]).trim().to_owned()
}

/// Reads the address from the line that contains it; none if the process ends before. The rest is read to the end, so
/// that the server's stdout is never closed or full.
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

/// Settings of a server, as environment variables.
pub type Variables = Vec<(String, String)>;

/// How to start a Lockkeeper.
#[derive(Clone, Debug)]
pub struct Launch {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub variables: Variables,
    /// The directory is kept; without one, a temporary directory is used.
    pub data_dir: Option<PathBuf>,
    pub token: Token,
}

impl Launch {
    pub fn new(program: PathBuf, variables: Variables, token: Token) -> Self {
        Self { program, arguments: Vec::new(), variables, data_dir: None, token }
    }
}

/// A Lockkeeper started by the load test.
pub struct Process {
    /// Declared before the directory, so that the process is dropped first.
    pub running: Running,
    /// Used for the next start.
    pub launch: Launch,
    home: TempDir,
    data_dir: PathBuf,
}

impl Process {
    /// Starts the server on any free port.
    pub async fn start(launch: Launch) -> Result<Self, ProcessError> {
        Self::start_on(SocketAddr::from(([127, 0, 0, 1], 0)), launch).await
    }

    pub async fn start_on(address: SocketAddr, launch: Launch) -> Result<Self, ProcessError> {
        let home = directory("lockkeeper-load-")?;
        let data_dir = launch.data_dir.clone().unwrap_or_else(|| home.path().join("data"));
        let mut process = Self { running: Running { address, child: None }, launch, home, data_dir };
        process.start_again().await?;
        Ok(process)
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Restarts the server on the same port, so that clients can reconnect.
    pub async fn start_again(&mut self) -> Result<Duration, ProcessError> {
        let began = Instant::now();
        self.serve_again().await?;
        while began.elapsed() < START_TIMEOUT {
            if self.running.is_answering("/readyz").await {
                return Ok(began.elapsed());
            }
            tokio::time::sleep(POLL).await;
        }
        self.running.kill()?;
        Err(ProcessError::NotReady)
    }

    /// Restarts the server without waiting until it is ready; a node is ready only when all shards have owners.
    pub async fn serve_again(&mut self) -> Result<(), ProcessError> {
        self.running = Running::start(self.command(), &self.log()).await?;
        Ok(())
    }

    /// The log: the server's stderr over all starts.
    pub fn log(&self) -> PathBuf {
        self.home.path().join("server.log")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.launch.program);
        command.arg("serve").arg("--listen").arg(self.running.address.to_string());
        command.arg("--data-dir").arg(&self.data_dir).args(&self.launch.arguments);
        // Variables of the load test, such as LOCKKEEPER_TOKEN, are not settings of the server.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LOCKKEEPER_")) {
            command.env_remove(name);
        }
        command.env("LOCKKEEPER_BOOTSTRAP_TOKEN", self.launch.token.reveal());
        command.env("LOCKKEEPER_RATE_LIMIT", "off");
        command.envs(self.launch.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A temporary directory, removed on drop.
pub fn directory(prefix: &str) -> Result<TempDir, ProcessError> {
    tempfile::Builder::new().prefix(prefix).tempdir().map_err(ProcessError::Home)
}

/// Below Linux's `ip_local_port_range`.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;
/// More ports than one load test uses. Load tests started close together have adjacent process ids.
const PORTS_EACH: u32 = 101;

/// A free address on loopback.
pub fn free_address() -> std::io::Result<SocketAddr> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Concurrent load tests start at distant ports.
    let start = (std::process::id().wrapping_mul(PORTS_EACH) % u32::from(COUNT)) as u16;
    let mut last = Err(std::io::ErrorKind::AddrInUse.into());
    for _ in 0..COUNT {
        let port = FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT;
        last = TcpListener::bind(("127.0.0.1", port)).and_then(|listener| listener.local_addr());
        if last.is_ok() {
            break;
        }
    }
    last
}

#[cfg(test)]
mod running_tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_the_greeting() {
        let greeting = b"\nLockkeeper 0.1.0 serves on http://127.0.0.1:4711\nAPI explorer: ...\n";
        assert_eq!(served_address(&greeting[..]), Some(SocketAddr::from(([127, 0, 0, 1], 4711))));
        assert_eq!(served_address(&b"something else\n"[..]), None);
    }
}

#[cfg(test)]
mod process_tests {
    use super::*;

    #[tokio::test]
    async fn a_program_that_does_not_serve_is_told_with_its_own_words() {
        let launch = Launch::new("/bin/sh".into(), Vec::new(), Token::random());
        let error = Process::start(launch).await.err().expect("sh knows no `serve`");
        assert!(matches!(&error, ProcessError::NotStarted(why) if why.contains("serve")), "{error}");
    }
}
