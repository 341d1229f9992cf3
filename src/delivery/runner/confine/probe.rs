//! The optional layers, and which of them this machine has, determined by confining a real process.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::getuid;

use super::super::control_groups::ControlGroups;
use super::super::protocol::{self, Confinement, SUPERVISE_COMMAND, Status, StepOrder};
use super::super::{chain, work_dirs};
use super::init::{NOT_CONFINED, WORK_DIR_UNUSABLE};
use super::sockets::ProbeSockets;
use store::space::{is_lack_of_space, tells_of_lack_of_space};

/// Used in place of a deployment's id.
const PROBE: &str = "probe";

/// Why no layer could be tried, as the end of a sentence. A full disk, for example, says nothing about the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untried(pub String);

/// Why a layer does not work.
enum Failed {
    Missing(String),
    Untried(String),
}

impl Failed {
    fn of(error: &io::Error) -> Self {
        let errno = Errno::from_io_error(error);
        let is_shortage = matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN));
        let is_lack = is_lack_of_space(error) || is_shortage;
        if is_lack { Failed::Untried(error.to_string()) } else { Failed::Missing(error.to_string()) }
    }

    /// From the report of a confined process.
    fn told(reason: String) -> Self {
        let is_lack = reason.starts_with(WORK_DIR_UNUSABLE) && tells_of_lack_of_space(&reason);
        if is_lack { Failed::Untried(reason) } else { Failed::Missing(reason) }
    }
}

/// Adds one layer after another and keeps those that work together. Blocks for some milliseconds.
pub fn probe(
    supervisor: &Path,
    wanted: &Confinement,
    groups: &Result<ControlGroups, String>,
) -> Result<Layers, Untried> {
    let mut tried =
        Confinement { namespaces: false, user: None, file_rules: false, call_filter: false, ..wanted.clone() };
    let mut layers = Layers { held: Vec::new(), missing: Vec::new() };
    for layer in Layer::ALL {
        let more = add(layer, &tried, wanted, groups).map_err(Failed::Missing);
        match more.and_then(|more| attempt(supervisor, layer, &more).map(|()| more)) {
            Ok(more) => {
                tried = more;
                layers.held.push(layer);
            }
            Err(Failed::Missing(reason)) => layers.missing.push((layer, reason)),
            Err(Failed::Untried(reason)) => return Err(Untried(reason)),
        }
    }
    if let Ok(groups) = groups {
        groups.remove(PROBE);
    }
    Ok(layers)
}

/// Tries one more layer.
fn add(
    layer: Layer,
    before: &Confinement,
    wanted: &Confinement,
    groups: &Result<ControlGroups, String>,
) -> Result<Confinement, String> {
    let mut more = before.clone();
    match layer {
        Layer::Namespaces => more.namespaces = true,
        Layer::FileRules => more.file_rules = true,
        Layer::CallFilter => more.call_filter = true,
        Layer::Sockets => {}
        Layer::Users if wanted.user.is_none() => return Err("only root may change users".to_owned()),
        Layer::Users => more.user = wanted.user,
        Layer::ControlGroups => {
            let made = groups.as_ref().map_err(Clone::clone)?.make(PROBE).map_err(|error| error.to_string())?;
            more.control_groups = made.iter().map(|group| group.to_string_lossy().into_owned()).collect();
        }
    }
    Ok(more)
}

fn attempt(supervisor: &Path, layer: Layer, confinement: &Confinement) -> Result<(), Failed> {
    let (work_dir, temporary_dir) = (Path::new(&confinement.work_dir), Path::new(&confinement.temporary_dir));
    let made = [work_dir, temporary_dir].into_iter().try_for_each(|dir| work_dirs::create(dir, confinement.user));
    if let Err(error) = made {
        let cannot_give_away = confinement.user.is_some() && error.kind() == io::ErrorKind::PermissionDenied;
        let reason = format!("no directory can be made for it: {error}");
        // Without this layer, a step has directories of the server's own user. With any other error, no step could
        // work.
        return Err(if cannot_give_away { Failed::Missing(reason) } else { Failed::Untried(reason) });
    }
    let tried = run(supervisor, layer, confinement);
    for dir in [work_dir, temporary_dir] {
        std::fs::remove_dir_all(dir).ok();
    }
    tried.map_err(|error| Failed::of(&error))?.map_err(Failed::told)
}

fn run(supervisor: &Path, layer: Layer, confinement: &Confinement) -> io::Result<Result<(), String>> {
    let data_dir = Path::new(&confinement.data_dir);
    let sockets = (layer == Layer::Sockets).then(|| ProbeSockets::open(data_dir)).transpose()?;
    let added: Vec<_> = confinement.read_only.iter().chain(&confinement.writable).map(Path::new).collect();
    let variables = sockets.as_ref().map(|sockets| sockets.variables(&added)).unwrap_or_default();
    let nothing = StepOrder {
        arguments: Vec::new(),
        variables,
        work_dir: confinement.work_dir.clone(),
        grace: Duration::ZERO,
        umask: 0o077,
        lease: None,
    };
    let mut command = Command::new(supervisor);
    command.args([SUPERVISE_COMMAND, PROBE]).env_clear();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    if let Some(input) = &mut child.stdin {
        input.write_all(&protocol::encode(&Some(confinement))?)?;
        input.write_all(&protocol::encode(&nothing)?)?;
    }
    let mut outcome = Err("its supervisor ended without a word".to_owned());
    if let Some(reports) = &mut child.stderr {
        loop {
            match chain::read_message(reports) {
                Ok(Status::Started) => outcome = Ok(()),
                Ok(Status::NotStarted(reason)) => {
                    outcome = Err(reason.strip_prefix(NOT_CONFINED).unwrap_or(&reason).to_owned());
                }
                Ok(Status::Exited(_) | Status::LeaseOver(_)) => {}
                Ok(Status::Gone { .. }) | Err(_) => break,
            }
        }
    }
    child.wait()?;
    Ok(outcome)
}

/// A part of the confinement that not every machine has. Dropped privileges and limits always apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    Namespaces,
    Users,
    FileRules,
    CallFilter,
    /// Not a separate mechanism: whether the layers before it keep a step from connecting to others' sockets.
    Sockets,
    ControlGroups,
}

impl Layer {
    /// Each may need those before it.
    pub(super) const ALL: [Layer; 6] =
        [Layer::Namespaces, Layer::Users, Layer::FileRules, Layer::CallFilter, Layer::Sockets, Layer::ControlGroups];

    pub const fn name(self) -> &'static str {
        match self {
            Layer::Namespaces => "namespaces",
            Layer::Users => "own users",
            Layer::FileRules => "Landlock",
            Layer::CallFilter => "system call filter",
            Layer::Sockets => "closed sockets",
            Layer::ControlGroups => "control groups",
        }
    }

    /// How an operator can enable the layer.
    pub const fn advice(self) -> &'static str {
        match self {
            Layer::Namespaces => {
                "allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, \
                 kernel.apparmor_restrict_unprivileged_userns), or in a container CAP_SYS_ADMIN and an unmasked /proc"
            }
            Layer::Users => {
                "start the server as root with CAP_SETUID, CAP_SETGID and CAP_CHOWN, and choose a runner.user_range that \
                 exists on this machine"
            }
            Layer::FileRules => "use Linux 5.13 or later with Landlock among its security modules (`lsm=landlock,…`)",
            Layer::CallFilter => "use a kernel with seccomp filters (CONFIG_SECCOMP_FILTER) on x86-64, ARM64 or RISC-V",
            Layer::Sockets => {
                "sockets in directories need namespaces, or Linux 7.1 or later with Landlock; abstract ones need Linux 6.12 or \
                 later with Landlock, or runner.network = \"none\"; those that are named must move to a directory that steps do \
                 not see, such as /run, or be closed to other users"
            }
            Layer::ControlGroups => "start the server as root, or with systemd's `Delegate=yes`",
        }
    }
}

/// The layers that work on this machine, and the missing ones, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    pub held: Vec<Layer>,
    pub missing: Vec<(Layer, String)>,
}

impl Layers {
    pub fn has(&self, layer: Layer) -> bool {
        self.held.contains(&layer)
    }

    /// The missing layers that separate one organization's steps from another's. Separate users do not count, since
    /// only root can provide them; nor control groups, which only limit.
    pub fn lacking(&self) -> impl Iterator<Item = &(Layer, String)> {
        self.missing.iter().filter(|(layer, _)| match layer {
            Layer::Namespaces | Layer::FileRules | Layer::CallFilter | Layer::Sockets => true,
            Layer::Users => getuid().is_root(),
            Layer::ControlGroups => false,
        })
    }
}
