//! Tries which layers this machine has, by really confining a process.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;

use super::super::chain;
use super::super::control_groups::ControlGroups;
use super::super::protocol::{self, Confinement, SUPERVISE_COMMAND, Status, StepOrder};
use super::super::work_dirs;
use super::apply::WORK_DIR_UNUSABLE;
use super::init::NOT_CONFINED;
use super::layers::{Layer, Layers};
use super::sockets::ProbeSockets;
use store::space::{is_lack_of_space, tells_of_lack_of_space};

/// Stands where the id of a deployment stands otherwise.
const PROBE: &str = "probe";

/// What a full disk hinders says nothing about the machine: the reason that nothing could be tried, as the end of a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untried(pub String);

/// Why a layer is not held.
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

    /// Of a process that was confined.
    fn told(reason: String) -> Self {
        let is_lack = reason.starts_with(WORK_DIR_UNUSABLE) && tells_of_lack_of_space(&reason);
        if is_lack { Failed::Untried(reason) } else { Failed::Missing(reason) }
    }
}

/// Adds one layer after another and keeps those that work together. Blocking, for some milliseconds.
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

/// One layer more than before.
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
        // Without this layer, a step has directories of the server's own user. With any other error, no step could work.
        return Err(if cannot_give_away { Failed::Missing(reason) } else { Failed::Untried(reason) });
    }
    let tried = Ok(()).and_then(|()| match layer {
        Layer::Sockets => {
            let sockets = ProbeSockets::open(Path::new(&confinement.data_dir))?;
            let added: Vec<_> = confinement.read_only.iter().chain(&confinement.writable).map(Path::new).collect();
            run(supervisor, confinement, sockets.variables(&added))
        }
        Layer::Namespaces | Layer::Users | Layer::FileRules | Layer::CallFilter | Layer::ControlGroups => {
            run(supervisor, confinement, Vec::new())
        }
    });
    for dir in [work_dir, temporary_dir] {
        std::fs::remove_dir_all(dir).ok();
    }
    tried.map_err(|error: io::Error| Failed::of(&error))?.map_err(Failed::told)
}

fn run(
    supervisor: &Path,
    confinement: &Confinement,
    variables: Vec<(String, String)>,
) -> io::Result<Result<(), String>> {
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
