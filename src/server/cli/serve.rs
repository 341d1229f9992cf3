//! `lockkeeper serve`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use super::environment::Variables;
use super::output::{EXIT_CONFIG, EXIT_FAILED, complain};
use crate::app;
use crate::app::Start;
use crate::config::{self, Flags};
use crate::telemetry;

#[derive(clap::Args)]
pub struct Serve {
    /// A settings file; also LOCKKEEPER_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory; created with owner-only permissions if missing; also LOCKKEEPER_DATA_DIR
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The address to listen on, like 127.0.0.1:8080 or localhost:8080; `:8080` and 0.0.0.0:8080 let other machines connect,
    /// over IPv4, [::]:8080 also over IPv6; port 0 picks a free one; also LOCKKEEPER_LISTEN
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Start without the damaged part of the log and everything after it, which is kept aside in the data directory
    #[arg(long)]
    discard_damaged_log: bool,
    /// Start although the master key of the data is lost for good: deletes all secrets and the signing secrets of webhooks, and
    /// seals events with a new key; does nothing while the key is there
    #[arg(long)]
    forget_master_key: bool,
}

pub fn serve(arguments: Serve, variables: Variables, step_umask: u32) -> ExitCode {
    let flags = Flags { config: arguments.config, data_dir: arguments.data_dir, listen: arguments.listen };
    let settings = match config::load_to_serve(&flags, variables.clone()) {
        Ok(settings) => settings,
        Err(faults) => return complain(EXIT_CONFIG, &faults),
    };
    if let Err(fault) = telemetry::start_logging(&settings.log) {
        return complain(EXIT_CONFIG, &fault);
    }
    let load = Arc::new(move || config::load_to_serve(&flags, variables.clone()));
    let Serve { discard_damaged_log, forget_master_key, .. } = arguments;
    match app::serve(&settings, load, Start { discard_damaged_log, forget_master_key, step_umask }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(EXIT_FAILED, &error),
    }
}
