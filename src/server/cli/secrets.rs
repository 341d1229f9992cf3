//! `lockkeeper secrets`: the client's commands, and `rotate-key`, which manages the keys of a data directory while its
//! server is stopped.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use super::environment::Variables;
use super::{EXIT_CONFIG, EXIT_FAILED, Failed, check_exists, load, say, start_logging};
use crate::app;
use crate::config::Flags;
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

pub fn run(command: Command, variables: Variables) -> Result<ExitCode, Failed> {
    match command {
        Command::Client(_) => unreachable!("commands of the client run before those of the server"),
        Command::RotateKey { config, data_dir } => rotate_key(&Flags { config, data_dir, listen: None }, variables),
    }
}

fn rotate_key(flags: &Flags, variables: Variables) -> Result<ExitCode, Failed> {
    let mut settings = load(flags, variables)?;
    start_logging(&settings.log)?;
    let keys = given_keys(settings.master_key.take(), settings.master_key_new.take());
    let keys = keys.map_err(|fault| Failed::new(EXIT_CONFIG, fault))?;
    let from_variables = keys.is_some();
    if let Some(cluster) = settings.cluster.as_ref().filter(|_| flags.data_dir.is_none()) {
        // The key of a cluster comes from the environment.
        let (old, new) = keys.ok_or_else(|| Failed::new(EXIT_CONFIG, "LOCKKEEPER_MASTER_KEY is not set"))?;
        return Ok(match app::rotate_cluster(cluster, old, new)? {
            Some(rotated) => say(&format!("{}\n{}", in_words(rotated), set_new_key("the nodes"))),
            None => say("The cluster has the new key already: nothing was changed."),
        });
    }
    check_exists(&settings.data_dir)?;
    let store = app::open_store(&settings, false)?;
    let cannot_start = |error| Failed::new(EXIT_FAILED, format!("cannot start: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(cannot_start)?;
    let rotated = runtime.block_on(secrets::rotate(&store, &settings.data_dir, keys))?;
    store.close();
    let advice = if from_variables {
        set_new_key("the server")
    } else {
        format!(
            "The new master key is in {}; keep a copy in a safe place. Older backups need the old key.",
            settings.data_dir.join("master.key").display()
        )
    };
    Ok(say(&format!("{}\n{advice}", in_words(rotated))))
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

fn in_words(Rotated { organizations, secrets }: Rotated) -> String {
    format!("Organizations with new keys: {organizations}, secrets encrypted again: {secrets}.")
}

fn set_new_key(started: &str) -> String {
    format!(
        "Now start {started} with LOCKKEEPER_MASTER_KEY set to the value of LOCKKEEPER_MASTER_KEY_NEW, and unset the latter."
    )
}
