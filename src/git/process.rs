//! One process of git: what it sees, how long it may take, how much it may say, and that nothing of it is left.

use std::process::Stdio;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use zeroize::Zeroizing;

use super::fault::{self, GitError};
use super::names::Remote;
use super::scratch::Place;
use super::{Author, Git};

/// Of what a command says that is only done for its effect.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The end of what git says on its standard error; why it failed is there.
const COMPLAINT_BYTES_MAX: usize = 16 * 1024;
/// The largest file that git may write, which is the pack of what it fetches: one state of a repository of code is far
/// smaller, and a larger one would fill the disk that the store needs.
const FILE_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// After this long with less than a byte a second git gives up by itself, also when no server is left that would end it.
const STALLED_SECONDS: &str = "60";

/// No questions, and nobody waits for a host that does not answer.
const SSH: &str = "ssh -oBatchMode=yes -oConnectTimeout=20 -oServerAliveInterval=20 -oServerAliveCountMax=3";

/// What every process is told, over all that a repository says. Hooks, helpers, filters, signatures and monitors would be
/// other people's programs; links are written as plain files, so that nothing leads out of a work tree.
const CONFIGURATION: [(&str, &str); 21] = [
    ("advice.detachedHead", "false"),
    ("commit.gpgSign", "false"),
    ("core.askPass", ""),
    ("core.attributesFile", "/dev/null"),
    ("core.autocrlf", "false"),
    ("core.excludesFile", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("core.symlinks", "false"),
    ("credential.helper", ""),
    ("fetch.unpackLimit", "1"),
    ("gc.auto", "0"),
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", STALLED_SECONDS),
    ("init.defaultBranch", "main"),
    ("maintenance.auto", "false"),
    ("protocol.allow", "never"),
    ("push.gpgSign", "false"),
    ("submodule.recurse", "false"),
];

pub(super) struct Command<'a> {
    words: Vec<&'a str>,
    place: Option<Place>,
    remote: Option<&'a Remote>,
    author: Option<&'a Author>,
    input: &'a [u8],
    keeps: usize,
}

impl<'a> Command<'a> {
    pub fn new(words: &[&'a str]) -> Self {
        Self { words: words.to_vec(), place: None, remote: None, author: None, input: &[], keeps: ANSWER_BYTES_MAX }
    }

    pub fn and(mut self, words: &[&'a str]) -> Self {
        self.words.extend(words);
        self
    }

    pub fn within(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Only then its credential is handed over.
    pub fn talks_to(self, remote: &'a Remote) -> Self {
        Self { remote: Some(remote), ..self }
    }

    pub fn by(self, author: &'a Author) -> Self {
        Self { author: Some(author), ..self }
    }

    pub fn reads(self, input: &'a [u8]) -> Self {
        Self { input, ..self }
    }

    /// How much it may say; more is an error.
    pub fn keeps(self, bytes: usize) -> Self {
        Self { keeps: bytes, ..self }
    }

    /// What it said on its standard output.
    pub async fn run(self, git: &Git) -> Result<Vec<u8>, GitError> {
        let timeout = git.inner.settings.timeout;
        let seconds = timeout.as_secs();
        let turn = tokio::time::timeout(timeout, git.inner.turns.acquire()).await;
        let _turn = turn.map_err(|_| GitError::Busy { seconds })?.map_err(|_| GitError::Busy { seconds })?;
        let mut child = self.spawn(git)?;
        let group = Group::of(&child);
        let said = tokio::time::timeout(timeout, self.exchange(&mut child)).await;
        let Ok(said) = said else {
            drop(group);
            child.wait().await?;
            return Err(GitError::TimedOut { seconds });
        };
        let Said { output, complaint, was_cut } = said?;
        if was_cut {
            drop(group);
            child.wait().await?;
            return Err(GitError::TooLarge(format!("git said more than the {} bytes expected of it", self.keeps)));
        }
        // Within its time as well: what has closed its outputs may still hang.
        let Ok(status) = tokio::time::timeout(timeout, child.wait()).await else {
            drop(group);
            child.wait().await?;
            return Err(GitError::TimedOut { seconds });
        };
        group.has_ended();
        if status?.success() {
            return Ok(output);
        }
        Err(self.failure(git, &complaint))
    }

    fn spawn(&self, git: &Git) -> Result<Child, GitError> {
        let settings = &git.inner.settings;
        let mut command = tokio::process::Command::new(&settings.program);
        command
            .args(&self.words)
            .env_clear()
            .env("PATH", &git.inner.path)
            .env("HOME", &settings.scratch)
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TEMPLATE_DIR", "")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_SSH_COMMAND", SSH)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        self.configure(&mut command, settings.allow_file);
        match &self.place {
            Some(Place { repository, tree }) => {
                command.current_dir(tree.as_ref().unwrap_or(repository)).env("GIT_DIR", repository);
                if let Some(tree) = tree {
                    command.env("GIT_WORK_TREE", tree);
                }
            }
            // Not that of a repository in which the data directory happens to lie.
            None => {
                command.current_dir(&settings.scratch).env("GIT_DIR", settings.scratch.join("none"));
            }
        }
        if let Some(author) = self.author {
            for who in ["AUTHOR", "COMMITTER"] {
                command.env(format!("GIT_{who}_NAME"), author.name()).env(format!("GIT_{who}_EMAIL"), author.email());
            }
        }
        let child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound if settings.scratch.is_dir() => {
                GitError::NoGit { program: settings.program.display().to_string() }
            }
            _ => error.into(),
        })?;
        bound_files(&child);
        Ok(child)
    }

    fn configure(&self, command: &mut tokio::process::Command, allow_file: bool) {
        let credential = self.remote.and_then(Remote::header);
        let header = credential.map(super::names::Credential::authorization);
        let mut all: Vec<(&str, &str)> = CONFIGURATION.to_vec();
        all.extend([("protocol.https.allow", "always"), ("protocol.ssh.allow", "always")]);
        if allow_file {
            all.push(("protocol.file.allow", "always"));
        }
        // A credential goes to the host that it is for and not to where that sends us.
        all.push(("http.followRedirects", if header.is_some() { "false" } else { "initial" }));
        if let Some(header) = &header {
            all.push(("http.extraHeader", header));
        }
        command.env("GIT_CONFIG_COUNT", all.len().to_string());
        for (place, (key, value)) in all.into_iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{place}"), key).env(format!("GIT_CONFIG_VALUE_{place}"), value);
        }
    }

    async fn exchange(&self, child: &mut Child) -> Result<Said, GitError> {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(GitError::Io("its pipes are gone".to_owned()));
        };
        let writing = async move {
            // Whoever does not read it says why on its standard error.
            stdin.write_all(self.input).await.ok();
            drop(stdin);
        };
        let reading = async {
            let mut output = Vec::new();
            let limit = self.keeps as u64 + 1;
            stdout.take(limit).read_to_end(&mut output).await.map(|_| output)
        };
        // Read alongside, or a full pipe would stop the process; and no longer than it takes to know that it says too much.
        let complaining = read_end(stderr);
        let all = async { tokio::join!(writing, complaining) };
        tokio::pin!(all, reading);
        tokio::select! {
            output = &mut reading => {
                let output = output?;
                if output.len() > self.keeps {
                    return Ok(Said { output: Vec::new(), complaint: Zeroizing::default(), was_cut: true });
                }
                let ((), complaint) = all.await;
                Ok(Said { output, complaint: complaint?, was_cut: false })
            }
            ((), complaint) = &mut all => {
                let (output, complaint) = (reading.await?, complaint?);
                let was_cut = output.len() > self.keeps;
                Ok(Said { output, complaint, was_cut })
            }
        }
    }

    fn failure(&self, git: &Git, complaint: &[u8]) -> GitError {
        let said = String::from_utf8_lossy(complaint);
        let said = match self.remote.and_then(Remote::header) {
            Some(credential) => credential.hidden_in(&said),
            None => said.into_owned(),
        };
        // Where the server has its files is nobody's business.
        fault::of(&said.replace(&*git.inner.settings.scratch.to_string_lossy(), "…"))
    }
}

struct Said {
    output: Vec<u8>,
    complaint: Zeroizing<Vec<u8>>,
    was_cut: bool,
}

/// All of it is read and its end is kept.
async fn read_end(mut from: impl AsyncRead + Unpin) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let mut kept = Zeroizing::new(Vec::new());
    let mut piece = Zeroizing::new([0; 4096]);
    loop {
        let length = from.read(&mut piece[..]).await?;
        if length == 0 {
            return Ok(kept);
        }
        kept.extend_from_slice(&piece[..length]);
        if kept.len() > COMPLAINT_BYTES_MAX {
            let excess = kept.len() - COMPLAINT_BYTES_MAX;
            kept.drain(..excess);
        }
    }
}

/// Before it has started what it needs: those inherit it. A process that has ended already has written nothing.
fn bound_files(child: &Child) {
    let limit = Rlimit { current: Some(FILE_BYTES_MAX), maximum: Some(FILE_BYTES_MAX) };
    if let Some(pid) = pid(child) {
        prlimit(Some(pid), Resource::Fsize, limit).ok();
    }
}

fn pid(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

/// The process with all that it started, killed when dropped unless it has ended: a request that was given up leaves
/// nothing running. Its leader is waited for only afterwards, so that its number cannot be somebody else's.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(pid(child))
    }

    fn has_ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            kill_process_group(leader, Signal::KILL).ok();
        }
    }
}
