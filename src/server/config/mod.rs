//! The operator's configuration: settings in layers, and the organizations that files declare.
//!
//! Everything is checked before anything is used, and all faults are reported at once, each with its location. This
//! is why the layers are our own: neither `serde` nor `config` nor `figment` continues after the first fault and keeps
//! line numbers. Nothing here opens a socket, creates a directory or knows the users of a setting.
//!
//! Each line may use those above it, and none below:
//!
//! - `fault`: a fault and its location; `document`: a TOML file with the line of each value
//! - `sign_ins`, `organization`: an organization file, read by the same forms as requests
//! - `value`, `kinds`: one value of a setting, and the kinds of settings
//! - `keys`, `layers`: the known keys, and their values in all layers
//! - `tls`, `runner`, `analysis`, `log_store`, `cluster`, `settings`: the sections of the settings
//! - `check`: one file alone, for `lockkeeper check`

mod analysis;
mod check;
mod cluster;
mod document;
mod fault;
mod keys;
mod kinds;
mod layers;
mod log_store;
mod organization;
mod runner;
mod settings;
mod sign_ins;
#[cfg(test)]
mod tests;
mod tls;
mod value;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

#[cfg(test)]
pub use analysis::Analysis;
pub use analysis::AnalysisEngine;
pub use check::{Summary, check_file};
pub use cluster::{Cluster, Engine, EngineCertificates, EtcdEngine, PostgresEngine};
pub use fault::{Fault, Faults};
pub use layers::{DEFAULT_TOML, Flags};
pub use log_store::LogStore;
pub use organization::{Environment, Member, Organization, Pipeline, Prune, read_step};
#[cfg(test)]
pub use runner::Runner;
pub use runner::{Isolation, StepNetwork, UserRange};
#[cfg(test)]
pub use settings::{Auth, Environments, Events, FileUrls, Git, Http, Idempotency, RateLimit, Storage, Webhooks};
pub use settings::{Log, LogFormat, Settings};
pub use tls::Tls;

use document::Document;
use fault::SourceLocation;
use keys::CONFIG_VARIABLE;
use layers::{CLIENT_TOKEN, IDENTITY_TOKEN, Purpose, Variables, is_ours};

/// The organization that is served if the settings name none.
pub const SAMPLE_TOML: &str = include_str!("../../../config/acme.toml");

/// Loads all settings: the defaults, the file, `environment` (all variables of the process), then `flags`.
pub fn load(
    flags: &Flags,
    environment: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
) -> Result<Settings, Faults> {
    load_for(Purpose::Command, flags, environment)
}

/// Loads the settings for a server: also checks the TLS files, which no other command needs.
pub fn load_to_serve(
    flags: &Flags,
    environment: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
) -> Result<Settings, Faults> {
    load_for(Purpose::Serve, flags, environment)
}

fn load_for(
    purpose: Purpose,
    flags: &Flags,
    environment: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
) -> Result<Settings, Faults> {
    let variables = environment.into_iter().map(|(name, value)| (name.into(), value.into()));
    let variables = variables.filter(|(name, _)| is_ours(name) || log_store::is_variable(name)).collect();
    let mut faults = Vec::new();
    let file = settings_file(flags, &variables).and_then(|(path, location)| {
        let unreadable = |reason: String| faults.push(unreadable_settings(&path, location, &reason));
        Document::read(&path).map_err(unreadable).ok()
    });
    let (mut settings, files, findings) = settings::read(purpose, file.as_ref(), &variables, flags);
    faults.extend(findings.faults);
    settings.sample = files.is_empty();
    settings.organizations = if settings.sample {
        let document = Document::new(Path::new("config/acme.toml (embedded)"), SAMPLE_TOML.to_owned());
        organization::read(&document, &mut faults).into_iter().map(|(organization, _)| organization).collect()
    } else {
        organization::read_all(files, &mut faults).into_iter().map(|(_, organization)| organization).collect()
    };
    Faults::none_of(faults)?;
    Ok(settings)
}

fn settings_file(flags: &Flags, variables: &Variables) -> Option<(PathBuf, SourceLocation)> {
    let from_flag = flags.config.clone().map(|path| (path, SourceLocation::Flag("--config")));
    from_flag.or_else(|| {
        let path = variables.get(OsStr::new(CONFIG_VARIABLE))?;
        Some((path.into(), SourceLocation::Variable(CONFIG_VARIABLE.to_owned())))
    })
}

fn unreadable_settings(path: &Path, location: SourceLocation, reason: &str) -> Fault {
    let advice = "correct the path, or leave it out to start with the defaults";
    Fault::new(location, format!("cannot read `{}`: {reason}; {advice}", path.display()))
}

/// Whether an environment variable contains a secret setting, or a client's token.
pub fn is_secret_variable(name: &OsStr) -> bool {
    [CLIENT_TOKEN, IDENTITY_TOKEN].iter().any(|secret| name == OsStr::new(secret))
        || log_store::is_secret_variable(name)
        || (is_ours(name) && settings::KEYS.iter().any(|key| key.is_secret && name == OsStr::new(&key.variable())))
}
