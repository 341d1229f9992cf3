//! How steps are confined on this machine: tried at the start, and reported to the operator.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::error::ServeError;
use crate::config::{self, Settings};
use ambient::backoff::{Backoff, Retries};
use delivery::runner::{
    self, Confinement, ControlGroups, Isolation, Layer, Layers, SharedIsolation, StepLimits, StepNetwork, Untried,
};
use domain::Identifier;

/// In the folder of working directories, where those of deployments are named by ids.
const PROBE_DIR: &str = "probe";

/// Whether each organization's steps need their own user.
pub fn needs_users(settings: &Settings) -> bool {
    settings.runner.isolation != config::Isolation::Off && rustix::process::getuid().is_root()
}

/// The pauses between attempts on a full disk.
const TRIED_AGAIN: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(20));

pub struct FoundIsolation {
    pub isolation: SharedIsolation,
    /// For the operator: the setting and the result of trying it.
    pub summary: String,
    /// Whether confined steps cannot read any file of the data directory.
    pub closes_data: bool,
}

/// `users` are those of organizations, if steps need separate users. `work_dir`, inside the data directory, contains
/// the working directories of deployments.
///
/// If the disk is too full to try, this is retried in the background, and no step runs until it works.
pub async fn find(
    settings: &Settings,
    users: BTreeMap<Identifier, u32>,
    data_dir: &Path,
    work_dir: &Path,
) -> Result<FoundIsolation, ServeError> {
    let Untried(reason) = match try_once(settings, &users, data_dir, work_dir).await? {
        Ok(found) => return Ok(found),
        Err(untried) => untried,
    };
    let isolation = SharedIsolation::default();
    let summary =
        format!("{}: not tried yet, and no step runs until it is: {reason}", settings.runner.isolation.as_str());
    tracing::error!(isolation = summary, "cannot try to confine steps; trying again until it works");
    let (settings, data_dir, work_dir) = (settings.clone(), data_dir.to_owned(), work_dir.to_owned());
    let later = isolation.clone();
    tokio::spawn(async move {
        let mut retries = Retries::new(TRIED_AGAIN);
        loop {
            tokio::time::sleep(retries.failed()).await;
            match try_once(&settings, &users, &data_dir, &work_dir).await {
                Ok(Err(_)) => {}
                // The operator socket has been opened meanwhile, so steps may run only if they cannot reach it.
                Ok(Ok(found)) if found.closes_data => return later.set(found.isolation.get()),
                Ok(Ok(FoundIsolation { summary, .. })) => {
                    tracing::error!(
                        isolation = summary,
                        "no step runs until the server is restarted, since steps could read its key"
                    );
                    return;
                }
                Err(error) => {
                    tracing::error!(%error, "no step runs until the server is restarted with other settings");
                    return;
                }
            }
        }
    });
    Ok(FoundIsolation { isolation, summary, closes_data: true })
}

/// The isolation that works here, or why it could not be tried.
async fn try_once(
    settings: &Settings,
    users: &BTreeMap<Identifier, u32>,
    data_dir: &Path,
    work_dir: &Path,
) -> Result<Result<FoundIsolation, Untried>, ServeError> {
    let mode = settings.runner.isolation;
    let network = settings.runner.network;
    if mode == config::Isolation::Off {
        if network != config::StepNetwork::Open {
            return Err(ServeError::Isolation(no_network(network, "runner.isolation is \"off\"")));
        }
        let summary = "off; steps may do whatever the server's user may, also to other organizations".to_owned();
        tracing::warn!("steps are not confined, since runner.isolation is \"off\"");
        return Ok(Ok(FoundIsolation { isolation: None.into(), summary, closes_data: true }));
    }
    let wanted = confinement(settings, data_dir, work_dir, users.values().next().copied())?;
    let tried = wanted.clone();
    let probed = tokio::task::spawn_blocking(move || {
        let groups = ControlGroups::open(Path::new(&tried.data_dir), &tried.limits);
        let layers = runner::probe(Path::new(runner::OWN_PROGRAM), &tried, &groups);
        (layers, groups.ok())
    });
    let (layers, groups) = probed.await.expect("trying to confine a process does not panic");
    let layers = match layers {
        Ok(layers) => layers,
        Err(untried) => return Ok(Err(untried)),
    };
    let groups = groups.filter(|_| layers.has(Layer::ControlGroups));
    if mode == config::Isolation::Strict && layers.lacking().next().is_some() {
        return Err(ServeError::Isolation(refusal(&layers)));
    }
    let without = layers.missing.iter().find(|(layer, _)| *layer == Layer::Namespaces);
    if let Some((layer, reason)) = without.filter(|_| network != config::StepNetwork::Open) {
        let reason = format!("there are no namespaces: {reason}; {}", layer.advice());
        return Err(ServeError::Isolation(no_network(network, &reason)));
    }
    let summary = summary(mode, &layers, groups.as_ref().map(ControlGroups::summary).as_deref());
    if layers.lacking().next().is_some() {
        // The sample has nothing to protect, and the greeting mentions the missing layers.
        if settings.sample {
            tracing::info!(isolation = summary, "steps are not completely confined");
        } else {
            tracing::warn!(isolation = summary, "steps are not completely confined");
        }
    } else {
        tracing::info!(isolation = summary, "steps are confined");
    }
    let isolation = isolation(wanted, &layers, users.clone(), groups);
    if let Some(tls) = settings.tls.as_ref().filter(|tls| is_in_reach(&tls.files.key, &isolation)) {
        tracing::warn!(
            "tls.key: steps can read `{}`, since they run as the server's user; move it to a directory that they do not \
             see, such as one in /var/lib",
            tls.files.key.display()
        );
    }
    let closes_data = layers.has(Layer::Namespaces) || layers.has(Layer::FileRules);
    Ok(Ok(FoundIsolation { isolation: Some(isolation).into(), summary, closes_data }))
}

/// The layers that work on this machine, without those that the server's own control group provides; `None` if the
/// settings disable isolation. Tried in a separate directory, so that a running server is not affected.
pub fn examine(settings: &Settings) -> Result<Option<Layers>, ServeError> {
    if settings.runner.isolation == config::Isolation::Off {
        return Ok(None);
    }
    let place = std::env::temp_dir().join(format!("lockkeeper-doctor-{}", std::process::id()));
    let (data_dir, work_dir) = (place.join("data"), place.join("work"));
    let user = rustix::process::getuid().is_root().then_some(settings.runner.users.first);
    let wanted = confinement(settings, &data_dir, &work_dir, user)?;
    let made = DirBuilder::new().mode(0o711).create(&place);
    let made = made.and_then(|()| [&data_dir, &work_dir].into_iter().try_for_each(std::fs::create_dir));
    let groups = Err("not tried".to_owned());
    let layers = made.map_err(|error| error.to_string()).and_then(|()| {
        runner::probe(Path::new(runner::OWN_PROGRAM), &wanted, &groups).map_err(|Untried(reason)| reason)
    });
    std::fs::remove_dir_all(&place).ok();
    layers.map(Some).map_err(|error| ServeError::Isolation(format!("cannot be tried in {}: {error}", place.display())))
}

/// Whether steps can read a file of the server. File permissions do not stop steps that run as the server's user.
fn is_in_reach(file: &Path, isolation: &Isolation) -> bool {
    let Ok(file) = file.canonicalize() else { return false };
    let template = &isolation.template;
    let added = template.read_only.iter().chain(&template.writable);
    isolation.users.is_empty()
        && (!template.file_rules || runner::is_of_system(&file) || added.into_iter().any(|path| file.starts_with(path)))
}

fn isolation(
    wanted: Confinement,
    layers: &Layers,
    users: BTreeMap<Identifier, u32>,
    groups: Option<ControlGroups>,
) -> Isolation {
    let template = Confinement {
        user: None,
        namespaces: layers.has(Layer::Namespaces),
        file_rules: layers.has(Layer::FileRules),
        call_filter: layers.has(Layer::CallFilter),
        ..wanted
    };
    Isolation { template, users: if layers.has(Layer::Users) { users } else { BTreeMap::new() }, groups }
}

/// A confinement with everything, for the probe.
fn confinement(
    settings: &Settings,
    data_dir: &Path,
    work_dir: &Path,
    user: Option<u32>,
) -> Result<Confinement, ServeError> {
    let given = &settings.runner;
    let search_path = given.path.split(':').map(PathBuf::from).filter(|path| !runner::is_of_system(path));
    // Steps may execute programs in directories that the operator put on the PATH, unless those overlap the data
    // directory.
    let programs = search_path.filter_map(|path| Some((path.canonicalize().ok()?, path)));
    let programs = programs.filter(|(found, _)| is_apart(found, data_dir));
    let mut read_only = checked("runner.read_only_paths", &given.read_only_paths, data_dir)?;
    read_only.extend(programs.flat_map(|(found, path)| names(&found, &path, data_dir)));
    let probe_dir = work_dir.join(PROBE_DIR);
    Ok(Confinement {
        user,
        namespaces: true,
        file_rules: true,
        call_filter: true,
        network: match given.network {
            config::StepNetwork::Open => StepNetwork::Open,
            config::StepNetwork::None => StepNetwork::None,
        },
        data_dir: text(data_dir),
        temporary_dir: text(&probe_dir) + ".tmp",
        work_dir: text(&probe_dir),
        read_only,
        writable: checked("runner.writable_paths", &given.writable_paths, data_dir)?,
        limits: StepLimits {
            processes: given.max_processes.map(u64::from),
            memory_bytes: given.max_memory_bytes,
            file_bytes: given.max_file_bytes.into_iter().chain(given.max_disk_bytes).min(),
            open_files: given.max_open_files.map(u64::from),
            cpu_seconds: given.max_cpu_seconds.map(u64::from),
        },
        control_groups: Vec::new(),
    })
}

/// The resolved paths, and the given paths too, since symbolic links on the way may be invisible to steps.
fn checked(setting: &str, paths: &[PathBuf], data_dir: &Path) -> Result<Vec<String>, ServeError> {
    let mut real = Vec::with_capacity(paths.len());
    for path in paths {
        let Ok(found) = path.canonicalize() else {
            tracing::warn!(setting, path = %path.display(), "there is no such path, so no step can use it");
            continue;
        };
        if !is_apart(&found, data_dir) {
            let (path, data_dir) = (path.display(), data_dir.display());
            let message = "steps could read the data of all organizations there; name a directory beside it";
            return Err(ServeError::Isolation(format!("{setting}: {path} is inside or above {data_dir}: {message}")));
        }
        real.extend(names(&found, path, data_dir));
    }
    Ok(real)
}

/// The resolved path, and the given one if it differs and is usable.
fn names(found: &Path, path: &Path, data_dir: &Path) -> Vec<String> {
    let is_plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    let is_another = path != found && is_plain && is_apart(path, data_dir);
    [Some(found), Some(path).filter(|_| is_another)].into_iter().flatten().map(text).collect()
}

fn is_apart(path: &Path, data_dir: &Path) -> bool {
    !data_dir.starts_with(path) && !path.starts_with(data_dir)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The isolation in one line.
fn summary(mode: config::Isolation, layers: &Layers, groups: Option<&str>) -> String {
    let held = layers.held.iter().map(|layer| match (layer, groups) {
        (Layer::ControlGroups, Some(groups)) => format!("{} ({groups})", layer.name()),
        (
            Layer::Namespaces
            | Layer::Users
            | Layer::FileRules
            | Layer::CallFilter
            | Layer::Sockets
            | Layer::ControlGroups,
            _,
        ) => layer.name().to_owned(),
    });
    let held: Vec<_> = held.chain(["limits".to_owned()]).collect();
    let mut text = format!("{}: {}", mode.as_str(), held.join(", "));
    for (layer, reason) in &layers.missing {
        text += &format!("; no {}: {reason}", layer.name());
    }
    text
}

fn no_network(network: config::StepNetwork, reason: &str) -> String {
    let network = network.as_str();
    format!(
        "runner.network is \"{network}\", which steps cannot have here: {reason}\nOr set runner.network = \"open\"."
    )
}

fn refusal(layers: &Layers) -> String {
    let mut text = "runner.isolation is \"strict\", and this machine cannot confine steps completely:".to_owned();
    for (layer, reason) in layers.lacking() {
        text += &format!("\n  no {}: {reason}; {}", layer.name(), layer.advice());
    }
    text + "\nOr set runner.isolation = \"best\" to start with what there is."
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn layers() -> Layers {
        Layers { held: vec![Layer::FileRules], missing: vec![(Layer::Namespaces, "a seccomp filter".to_owned())] }
    }

    #[test]
    fn the_summary_names_what_there_is_and_what_is_missing() {
        let text = summary(config::Isolation::Best, &layers(), None);
        assert_eq!(text, "best: Landlock, limits; no namespaces: a seccomp filter");
    }

    #[test]
    fn the_refusal_says_what_to_do_about_each_missing_layer() {
        let text = refusal(&layers());
        assert!(text.contains("no namespaces: a seccomp filter; allow user namespaces"), "{text}");
        assert!(text.ends_with("set runner.isolation = \"best\" to start with what there is."), "{text}");
    }

    #[test]
    fn a_file_is_in_reach_of_steps_that_run_as_the_servers_user_and_see_its_directory() {
        let hidden = tempfile::NamedTempFile::new().unwrap();
        let directory = hidden.path().parent().unwrap().canonicalize().unwrap();
        let users = BTreeMap::from([(Identifier::parse("acme").unwrap(), 1_900_000_000)]);
        let isolation = |file_rules, read_only: &[&str], users| Isolation {
            template: Confinement {
                user: None,
                namespaces: false,
                file_rules,
                call_filter: true,
                network: StepNetwork::Open,
                data_dir: String::new(),
                temporary_dir: String::new(),
                work_dir: String::new(),
                read_only: read_only.iter().map(|&path| path.to_owned()).collect(),
                writable: Vec::new(),
                limits: StepLimits::default(),
                control_groups: Vec::new(),
            },
            users,
            groups: None,
        };
        let reached = |file: &Path, isolation: Isolation| is_in_reach(file, &isolation);
        assert!(reached(Path::new("/etc/passwd"), isolation(true, &[], BTreeMap::new())));
        assert!(!reached(Path::new("/etc/passwd"), isolation(true, &[], users)));
        assert!(!reached(hidden.path(), isolation(true, &[], BTreeMap::new())));
        assert!(reached(hidden.path(), isolation(true, &[&text(&directory)], BTreeMap::new())));
        assert!(reached(hidden.path(), isolation(false, &[], BTreeMap::new())));
    }

    #[test]
    fn no_path_of_steps_may_lead_to_the_data_of_all() {
        let data_dir = std::env::temp_dir().canonicalize().unwrap();
        for path in [&data_dir, &data_dir.join(".."), &PathBuf::from("/tmp/..")] {
            let refused = checked("runner.writable_paths", std::slice::from_ref(path), &data_dir.join("."));
            assert!(refused.is_err(), "{}", path.display());
        }
        assert_eq!(checked("x", &["/usr".into(), "/no/such/path".into()], &data_dir).unwrap(), ["/usr"]);
    }
}
