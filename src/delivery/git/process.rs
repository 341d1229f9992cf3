//! One git process: its environment, its limits on time and output, and its end with everything it started.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Access, access};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use zeroize::Zeroizing;

use super::fault::{self, GitError};
use super::names::{Author, Credential, Remote};
use super::scratch::{self, RepositoryPaths};
use crate::{or_never, pid};
use domain::Identifier;
use outbound::{Policy, Proxy, tunnel_command, tunnel_variables};
use shares::{Capacity, Disk, DiskWriter, Permits, stand_back};

/// Concurrent git processes: each has a connection and unpacks data, and steps need the machine too. A slow remote
/// occupies one for the whole time limit, so an organization gets only some of them: four if no other uses git.
const PROCESSES_MAX: usize = 8;
/// Commands that wait for a process.
const WAITING_MAX: usize = 1_024;
/// Most commands write a line or two.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// Bytes per read from git: the capacity of a pipe.
const PIECE_BYTES: usize = 64 * 1024;
/// The end of git's standard error, which contains the reason of a failure.
const STDERR_BYTES_MAX: usize = 16 * 1024;
/// Git aborts after this long below one byte per second, even if the server that started it is gone.
const STALLED_SECONDS: &str = "60";

/// No prompts, no endless wait for a host that does not answer, and no forwarding to a host that others chose.
/// Overrides proxies and shared connections in the ssh configuration of the server's user.
const SSH: &str = "ssh -oBatchMode=yes -oConnectTimeout=20 -oServerAliveInterval=20 -oServerAliveCountMax=3 \
                   -oForwardAgent=no -oClearAllForwardings=yes -oControlPath=none -oProxyUseFdpass=no";

/// The configuration of every process, which overrides that of a repository. Hooks, helpers, filters, signatures and
/// monitors would run other people's programs. Links are written as plain files, so that nothing leads out of a work
/// tree.
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

#[derive(Debug, Clone)]
pub struct GitSettings {
    /// A path, or a name to look up in the server's `PATH`.
    pub program: PathBuf,
    /// The limit for each process.
    pub timeout: Duration,
    /// Whether `file://` URLs are allowed. Callers can then read, as the server's user, any repository on this machine.
    pub allow_file: bool,
    /// A directory used only by git. Leftovers of an earlier run are removed.
    pub scratch: PathBuf,
    /// Where git may connect to.
    pub policy: Policy,
    /// The path of this program, which ssh starts for the connection.
    pub own_program: PathBuf,
    /// The disk of `scratch`; `None` disables the check for space.
    pub disk: Option<Disk>,
    /// The limit per repository: for its size on disk, and for the sum of its files.
    pub max_bytes: u64,
}

/// The installed git. Cheap to clone; clones share the limit on processes.
#[derive(Debug, Clone)]
pub struct Git {
    pub(super) settings: Arc<GitSettings>,
    path: Arc<OsString>,
    places: Permits,
}

/// Git for one organization, which has a share of the processes.
#[derive(Debug, Clone)]
pub struct OrganizationGit {
    pub(super) git: Git,
    organization: Identifier,
}

impl Git {
    /// For a server with this many organizations.
    pub fn new(settings: GitSettings, organizations: usize) -> io::Result<Self> {
        let settings = GitSettings { scratch: std::path::absolute(&settings.scratch)?, ..settings };
        scratch::prepare(&settings.scratch)?;
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let (processes, waiting) = (Capacity::seats(PROCESSES_MAX), Capacity::turns(WAITING_MAX));
        let places = Permits::new("git_processes", processes.among(organizations), waiting.among(organizations));
        Ok(Self { settings: Arc::new(settings), path: Arc::new(path), places })
    }

    pub fn on_behalf_of(&self, organization: &Identifier) -> OrganizationGit {
        OrganizationGit { git: self.clone(), organization: organization.clone() }
    }

    /// Whether `file://` URLs are allowed.
    pub fn allows_file(&self) -> bool {
        self.settings.allow_file
    }

    /// The limit for each process.
    pub fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// The program as a path. The standard library forks to look up a name in a given `PATH`, and a fork copies the
    /// page tables of the whole server: this thread would be blocked for milliseconds.
    pub(super) fn program(&self) -> Cow<'_, Path> {
        let program = self.settings.program.as_path();
        if program.components().nth(1).is_some() {
            return program.into();
        }
        let mut paths = std::env::split_paths(&*self.path).map(|directory| directory.join(program));
        let found = paths.find(|path| path.is_absolute() && path.is_file() && access(path, Access::EXEC_OK).is_ok());
        found.map_or(program.into(), Cow::from)
    }
}

impl OrganizationGit {
    /// A command without a repository, remote, author or input.
    pub(super) fn command<'a>(&'a self, words: &[&'a str]) -> GitCommand<'a> {
        GitCommand {
            git: self,
            words: words.to_vec(),
            paths: None,
            remote: None,
            author: None,
            input: &[],
            output_max: OUTPUT_BYTES_MAX,
            check: Box::new(|_| Ok(())),
        }
    }
}

pub(super) struct GitCommand<'a> {
    pub git: &'a OrganizationGit,
    pub words: Vec<&'a str>,
    pub paths: Option<RepositoryPaths>,
    /// The credential of this remote is passed to git.
    pub remote: Option<&'a Remote>,
    pub author: Option<&'a Author>,
    pub input: &'a [u8],
    /// The limit on output; more is an error.
    pub output_max: usize,
    pub check: Check<'a>,
}

/// Called repeatedly with all output so far, so that a command stops as soon as its output is a reason to refuse it: an
/// error ends the command.
type Check<'a> = Box<dyn FnMut(&[u8]) -> Result<(), GitError> + Send + 'a>;

impl GitCommand<'_> {
    /// Runs the command and returns its standard output.
    pub async fn run(mut self) -> Result<Vec<u8>, GitError> {
        let OrganizationGit { git, organization } = self.git;
        let timeout = git.settings.timeout;
        let place = tokio::time::timeout(timeout, git.places.acquire(organization)).await;
        let _place = place.map_err(|_| GitError::Busy { seconds: timeout.as_secs() })?.map_err(GitError::Crowded)?;
        let proxy = match self.remote {
            Some(remote) if remote.url.is_remote() => Some(Proxy::bind(git.settings.policy.clone()).await?),
            Some(_) | None => None,
        };
        let writer = self.watch_disk()?;
        let mut child = self.spawn(proxy.as_ref())?;
        let mut group = Group(child.id().and_then(pid));
        let finished = tokio::select! {
            finished = self.finish(&mut child, timeout) => finished,
            never = or_never(proxy.as_ref().map(Proxy::serve)) => match never {},
            reason = or_never(writer.as_ref().map(DiskWriter::over)) => Err(GitError::TooLarge(format!("the repository {reason}"))),
        };
        let refused = proxy.and_then(|proxy| proxy.reason());
        let (status, stdout, stderr) = match finished {
            Ok(ended) => ended,
            Err(error) => {
                drop(group);
                child.wait().await?;
                return Err(self.told(error, refused));
            }
        };
        group.0 = None;
        if status.success() { Ok(stdout) } else { Err(self.told(self.failure(&stderr), refused)) }
    }

    /// Limits the space that a fetch may use.
    fn watch_disk(&self) -> Result<Option<DiskWriter>, GitError> {
        let OrganizationGit { git, organization } = self.git;
        let GitSettings { disk, max_bytes, .. } = &*git.settings;
        let (Some(_), Some(paths), Some(disk)) = (self.remote, &self.paths, disk) else { return Ok(None) };
        if let Some(reason) = disk.refusal(organization) {
            return Err(GitError::Io(reason));
        }
        let directories = vec![paths.repository.clone()];
        Ok(Some(disk.watch(organization, directories, Some(*max_bytes), "git.max_repository_mb")))
    }

    /// A remote that times out looks like one that cannot be reached; the reason is only in the log. `refused` is the
    /// reason why a connection was refused, which git does not know.
    fn told(&self, error: GitError, refused: Option<String>) -> GitError {
        let said = match error {
            GitError::TimedOut { .. } if self.remote.is_some() => error.to_string(),
            GitError::Unreachable(said) => said,
            other => return other,
        };
        let reason = refused.map_or(said.clone(), |refused| format!("{refused} ({said})"));
        tracing::warn!(organization = %self.git.organization, reason, "a git remote cannot be reached");
        GitError::Unreachable(reason)
    }

    fn spawn(&self, proxy: Option<&Proxy>) -> Result<Child, GitError> {
        let (git, settings) = (&self.git.git, &self.git.git.settings);
        let mut command = Command::new(git.program().as_ref());
        command
            .args(&self.words)
            .env_clear()
            .env("PATH", &*git.path)
            .env("HOME", &settings.scratch)
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TEMPLATE_DIR", "")
            .env("GIT_NO_LAZY_FETCH", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(proxy) = proxy {
            let connection = tunnel_command("%h", "%p");
            command
                .env("GIT_SSH_COMMAND", format!("{SSH} -oProxyCommand='{connection}'"))
                .env("GIT_SSH_VARIANT", "ssh");
            command.envs(tunnel_variables(&settings.own_program, proxy));
        }
        self.configure(&mut command, settings.allow_file, proxy);
        match &self.paths {
            Some(RepositoryPaths { repository, tree }) => {
                command.current_dir(tree.as_ref().unwrap_or(repository)).env("GIT_DIR", repository);
                if let Some(tree) = tree {
                    command.env("GIT_WORK_TREE", tree);
                }
            }
            // Otherwise git would find a repository that happens to contain the data directory.
            None => {
                command.current_dir(&settings.scratch).env("GIT_DIR", settings.scratch.join("none"));
            }
        }
        if let Some(author) = self.author {
            for role in ["AUTHOR", "COMMITTER"] {
                command.env(format!("GIT_{role}_NAME"), &author.name);
                command.env(format!("GIT_{role}_EMAIL"), &author.email);
            }
        }
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if settings.scratch.is_dir() => {
                GitError::NoGit { program: settings.program.display().to_string() }
            }
            _ => error.into(),
        })?;
        limit_file_size(&child, settings.max_bytes);
        child.id().into_iter().for_each(stand_back);
        Ok(child)
    }

    fn configure(&self, command: &mut Command, allow_file: bool, proxy: Option<&Proxy>) {
        let credential = self.remote.and_then(Remote::usable_credential);
        let header = credential.map(Credential::authorization);
        let proxy = proxy.map(Proxy::url);
        let mut all: Vec<(&str, &str)> = CONFIGURATION.to_vec();
        all.extend([("protocol.https.allow", "always"), ("protocol.ssh.allow", "always")]);
        if allow_file {
            all.push(("protocol.file.allow", "always"));
        }
        // A credential goes only to its own host, not to the target of a redirect.
        all.push(("http.followRedirects", if header.is_some() { "false" } else { "initial" }));
        if let Some(header) = &header {
            all.push(("http.extraHeader", header));
        }
        if let Some(proxy) = &proxy {
            all.extend([("http.proxy", proxy.as_str()), ("http.proxyAuthMethod", "basic")]);
        }
        command.env("GIT_CONFIG_COUNT", all.len().to_string());
        for (index, (key, value)) in all.into_iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{index}"), key).env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
    }

    /// Returns the exit status, standard output and the end of standard error. After an error the process may still be
    /// running.
    async fn finish(
        &mut self,
        child: &mut Child,
        timeout: Duration,
    ) -> Result<(ExitStatus, Vec<u8>, Zeroizing<Vec<u8>>), GitError> {
        let timed_out = |_| GitError::TimedOut { seconds: timeout.as_secs() };
        let exchanged = tokio::time::timeout(timeout, self.exchange(child)).await;
        let (stdout, stderr) = exchanged.map_err(timed_out)??;
        // The limit applies here too: a process that has closed its outputs may still hang.
        let status = tokio::time::timeout(timeout, child.wait()).await.map_err(timed_out)??;
        Ok((status, stdout, stderr))
    }

    /// Fails as soon as there is too much output.
    async fn exchange(&mut self, child: &mut Child) -> Result<(Vec<u8>, Zeroizing<Vec<u8>>), GitError> {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(mut stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(GitError::Io("its pipes are gone".to_owned()));
        };
        let Self { input, output_max, check, .. } = self;
        let writing = async move {
            // If git does not read the input, the reason is on its standard error.
            stdin.write_all(input).await.ok();
            drop(stdin);
            Ok(())
        };
        let reading = async {
            let mut output = Vec::new();
            loop {
                output.reserve(PIECE_BYTES);
                if stdout.read_buf(&mut output).await? == 0 {
                    return Ok(output);
                }
                if output.len() > *output_max {
                    let why = format!("git wrote more than the {output_max} bytes expected of it");
                    return Err(GitError::TooLarge(why));
                }
                check(&output)?;
            }
        };
        // Concurrently: a full pipe would block the process.
        let ((), stdout, stderr) = tokio::try_join!(writing, reading, async { Ok(read_end(stderr).await?) })?;
        Ok((stdout, stderr))
    }

    fn failure(&self, stderr: &[u8]) -> GitError {
        let settings = &self.git.git.settings;
        let most = settings.max_bytes;
        if self.paths.as_ref().is_some_and(|paths| has_pack_of(&paths.repository, most)) {
            let most = most / (1024 * 1024);
            return GitError::TooLarge(format!(
                "the repository used more than {most} MiB of disk (git.max_repository_mb)"
            ));
        }
        let said = String::from_utf8_lossy(stderr);
        let said = match self.remote.and_then(Remote::usable_credential) {
            Some(credential) => credential.mask(&said),
            None => said.into_owned(),
        };
        // Callers must not learn the server's paths.
        let said = said.replace(&*settings.scratch.to_string_lossy(), "…");
        fault::from_stderr(&said, self.remote.map_or("", |remote| remote.url.as_str()))
    }
}

/// Reads everything and keeps the end.
async fn read_end(mut from: impl AsyncRead + Unpin) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut kept = Zeroizing::new(Vec::new());
    let mut piece = Zeroizing::new([0; 4096]);
    loop {
        let length = from.read(&mut piece[..]).await?;
        if length == 0 {
            return Ok(kept);
        }
        kept.extend_from_slice(&piece[..length]);
        if kept.len() > STDERR_BYTES_MAX {
            let excess = kept.len() - STDERR_BYTES_MAX;
            kept.drain(..excess);
        }
    }
}

/// Set before git starts its helpers, which inherit the limit. A process that has already ended has written nothing.
fn limit_file_size(child: &Child, bytes: u64) {
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    if let Some(pid) = child.id().and_then(pid) {
        prlimit(Some(pid), Resource::Fsize, limit).ok();
    }
}

/// Whether the limit on file size stopped git, which does not report it.
fn has_pack_of(repository: &Path, bytes: u64) -> bool {
    let packs = std::fs::read_dir(repository.join("objects/pack")).into_iter().flatten().flatten();
    packs.filter_map(|pack| pack.metadata().ok()).any(|pack| pack.len() >= bytes)
}

/// The process group of a command, killed when dropped unless it has ended, so that an abandoned request leaves nothing
/// running. The leader is reaped only afterwards: until then no other group can get the same id.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            kill_process_group(leader, Signal::KILL).ok();
        }
    }
}
