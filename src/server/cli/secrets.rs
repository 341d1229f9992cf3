//! `lockkeeper secrets`: the client's commands, and `rotate-key`, which manages the keys of a data directory while its
//! server is stopped.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;

use super::environment::Variables;
use super::{EXIT_CONFIG, EXIT_FAILED, complain, say};
use crate::config::{self, Cluster, Flags, Settings};
use crate::{app, telemetry};
use accounts::secrets::{self, MasterKey, Rotated};

#[derive(Subcommand)]
pub enum Command {
    #[command(flatten)]
    Client(Box<client::commands::secrets::Command>),
    /// Create a new master key and encrypt all secrets with new keys, while the server or the cluster is stopped
    #[command(
        after_help = "If it is interrupted, nothing is lost: run it again, or start the server, which completes it.\n\n\
                      If the master key comes from LOCKKEEPER_MASTER_KEY, the new one comes from \
                      LOCKKEEPER_MASTER_KEY_NEW, and no file is changed.\n\n\
                      With the settings of a node and without --data-dir, it is the key of the cluster that is replaced, while no \
                      node runs. Interrupted, it must be run again with the same two keys, or with the two exchanged to go back to the \
                      old one; no node starts before that.\n\n\
                      Examples:\n  lockkeeper secrets rotate-key --data-dir /var/lib/lockkeeper\n  \
                      LOCKKEEPER_MASTER_KEY=… LOCKKEEPER_MASTER_KEY_NEW=$(openssl rand -hex 32) lockkeeper secrets rotate-key"
    )]
    RotateKey {
        /// The settings file of the server; also LOCKKEEPER_CONFIG
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// The data directory of the server; also LOCKKEEPER_DATA_DIR
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
    },
}

/// Why the keys were not rotated: one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
enum RotateError {
    #[error("data directory {0} does not exist; name the server's with --data-dir")]
    NoData(PathBuf),
    #[error(transparent)]
    Store(#[from] store::OpenError),
    #[error(transparent)]
    Secrets(#[from] secrets::OpenError),
    #[error("cannot start: {0}")]
    Io(#[from] std::io::Error),
}

pub fn run(command: Command, variables: Variables) -> ExitCode {
    match command {
        Command::Client(_) => unreachable!("commands of the client run before those of the server"),
        Command::RotateKey { config, data_dir } => rotate_key(Flags { config, data_dir, listen: None }, variables),
    }
}

fn rotate_key(flags: Flags, variables: Variables) -> ExitCode {
    let names_directory = flags.data_dir.is_some();
    let mut settings = match config::load(&flags, variables) {
        Ok(settings) => settings,
        Err(faults) => return complain(EXIT_CONFIG, &faults),
    };
    if let Err(fault) = telemetry::start_logging(&settings.log) {
        return complain(EXIT_CONFIG, &fault);
    }
    let keys = match given_keys(settings.master_key.take(), settings.master_key_new.take()) {
        Ok(keys) => keys,
        Err(fault) => return complain(EXIT_CONFIG, &fault),
    };
    if let Some(cluster) = settings.cluster.as_ref().filter(|_| !names_directory) {
        return rotate_cluster(cluster, keys);
    }
    let from_variables = keys.is_some();
    match rotate(&settings, keys) {
        Ok(rotated) => say(&report(rotated, from_variables, &settings.data_dir)),
        Err(error) => complain(EXIT_FAILED, &error),
    }
}

fn given_keys(old: Option<MasterKey>, new: Option<MasterKey>) -> Result<Option<(MasterKey, MasterKey)>, &'static str> {
    match (old, new) {
        (None, None) => Ok(None),
        (Some(old), Some(new)) if old == new => Err(
            "LOCKKEEPER_MASTER_KEY_NEW is the same as LOCKKEEPER_MASTER_KEY; set it to a new key, for example from \
                 `openssl rand -hex 32`",
        ),
        (Some(old), Some(new)) => Ok(Some((old, new))),
        (Some(_), None) => {
            Err("the master key comes from LOCKKEEPER_MASTER_KEY, so set LOCKKEEPER_MASTER_KEY_NEW to the \
                                new key, for example from `openssl rand -hex 32`")
        }
        (None, Some(_)) => {
            Err("LOCKKEEPER_MASTER_KEY_NEW is set and LOCKKEEPER_MASTER_KEY is not; set it to the current \
                                key too, or unset both to rotate the key in the data directory's file master.key")
        }
    }
}

fn rotate(settings: &Settings, keys: Option<(MasterKey, MasterKey)>) -> Result<Rotated, RotateError> {
    // The store would create a missing directory, and a typo would look like a rotation.
    if !settings.data_dir.exists() {
        return Err(RotateError::NoData(settings.data_dir.clone()));
    }
    let store = app::open_store(settings, false)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let rotated = runtime.block_on(secrets::rotate(&store, &settings.data_dir, keys))?;
    store.close();
    Ok(rotated)
}

/// The key of a cluster comes from the environment.
fn rotate_cluster(cluster: &Cluster, keys: Option<(MasterKey, MasterKey)>) -> ExitCode {
    let Some((old, new)) = keys else { return complain(EXIT_CONFIG, &"LOCKKEEPER_MASTER_KEY is not set") };
    match app::rotate_cluster(cluster, old, new) {
        Ok(Some(rotated)) => say(&in_words(rotated, "the nodes")),
        Ok(None) => say("The cluster has the new key already: nothing was changed."),
        Err(error) => complain(EXIT_FAILED, &error),
    }
}

fn in_words(Rotated { organizations, secrets }: Rotated, started: &str) -> String {
    format!(
        "Organizations with new keys: {organizations}, secrets encrypted again: {secrets}.\nNow start {started} with \
         LOCKKEEPER_MASTER_KEY set to the value of LOCKKEEPER_MASTER_KEY_NEW, and unset the latter."
    )
}

fn report(rotated: Rotated, from_variables: bool, data_dir: &Path) -> String {
    let Rotated { organizations, secrets } = rotated;
    if from_variables {
        return in_words(rotated, "the server");
    }
    format!(
        "Organizations with new keys: {organizations}, secrets encrypted again: {secrets}.\nThe new master key is in {}; keep a copy in a safe place. Older backups need the old key.",
        data_dir.join("master.key").display()
    )
}
