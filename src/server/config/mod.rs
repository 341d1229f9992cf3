//! The configuration by the operator: settings in layers, and the organizations that files declare.
//!
//! Everything is checked before anything is used, and all faults are reported at once, each with its place. This is
//! why the layers are our own: neither `config` nor `figment` continues after the first fault or keeps line numbers.
//! Nothing here opens a socket, creates a directory or knows the users of a setting.

mod cluster;
mod document;
mod fault;
mod given;
mod keys;
mod layers;
mod organization;
mod settings;
mod sign_ins;
#[cfg(test)]
mod tests;
mod tls;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

pub use fault::{Fault, Faults};
pub use layers::{Flags, is_secret_variable};
pub use organization::{Environment, Member, Organization, Pipeline, Prune, read_step};
#[cfg(test)]
pub use settings::{Analysis, Auth, Environments, Events, FileUrls, Git, Http, Idempotency, Runner, Storage, Webhooks};
pub use settings::{
    AnalysisEngine, AnalysisLlm, Cluster, Engine, EngineCertificates, EtcdEngine, Isolation, Log, LogFormat, LogStore,
    PostgresEngine, RateLimit, Settings, StepNetwork, Tls, UserRange,
};

use document::Document;
use fault::Place;
use keys::Draft;

/// Every key with its default, commented for an operator.
pub const DEFAULT_TOML: &str = include_str!("../../../config/default.toml");
/// The organization that is served if none is named.
pub const SAMPLE_TOML: &str = include_str!("../../../config/acme.toml");

/// Loads all settings: the defaults, then the file, then `environment` (all variables of the process), then `flags`.
pub fn load<K, V>(flags: &Flags, environment: impl IntoIterator<Item = (K, V)>) -> Result<Settings, Faults>
where
    K: Into<OsString>,
    V: Into<OsString>,
{
    load_for(Purpose::Other, flags, environment)
}

/// The same for a server: also checks the files of TLS, which no other command needs.
pub fn load_to_serve<K, V>(flags: &Flags, environment: impl IntoIterator<Item = (K, V)>) -> Result<Settings, Faults>
where
    K: Into<OsString>,
    V: Into<OsString>,
{
    load_for(Purpose::Serve, flags, environment)
}

/// What settings are loaded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Serve,
    Other,
}

fn load_for<K, V>(
    purpose: Purpose,
    flags: &Flags,
    environment: impl IntoIterator<Item = (K, V)>,
) -> Result<Settings, Faults>
where
    K: Into<OsString>,
    V: Into<OsString>,
{
    let environment: BTreeMap<OsString, OsString> = environment
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .filter(|(name, _)| layers::is_ours(name) || cluster::VARIABLES.iter().any(|known| name == known))
        .collect();
    let (environment, others) = environment.into_iter().partition(|(name, _)| layers::is_ours(name));
    let mut faults = Vec::new();
    let mut draft = defaults(&mut faults);
    draft.cluster.logs.variables = others;
    if let Some((path, place)) = settings_file(flags, &environment) {
        match Document::read(&path) {
            Ok(document) => layers::lay_file(&document, &mut draft, &mut faults),
            Err(reason) => faults.push(unreadable_settings(&path, place, &reason)),
        }
    }
    layers::lay_environment(&environment, &mut draft, &mut faults);
    layers::lay_flags(flags, &mut draft, &mut faults);
    if purpose == Purpose::Serve {
        draft.tls.check_files(&mut faults);
    }
    let settings = settle(draft, &mut faults);
    Faults::none_of(faults)?;
    Ok(settings)
}

fn defaults(faults: &mut Vec<Fault>) -> Draft {
    let mut draft = Draft::blank();
    let document = Document::new(Path::new("config/default.toml (embedded)"), DEFAULT_TOML.to_owned());
    layers::lay_file(&document, &mut draft, faults);
    draft.settings.http.max_connections_given = false;
    draft
}

fn settings_file(flags: &Flags, environment: &BTreeMap<OsString, OsString>) -> Option<(PathBuf, Place)> {
    let from_flag = flags.config.clone().map(|path| (path, Place::Flag("--config")));
    from_flag.or_else(|| {
        let path = environment.get(&OsString::from(layers::CONFIG_VARIABLE))?;
        Some((path.into(), Place::Variable(layers::CONFIG_VARIABLE.to_owned())))
    })
}

fn unreadable_settings(path: &Path, place: Place, reason: &str) -> Fault {
    let advice = "correct the path, or leave it out to start with the defaults";
    Fault::new(place, format!("cannot read `{}`: {reason}; {advice}", path.display()))
}

/// Adds the settings that need more than one key, or other files.
fn settle(draft: Draft, faults: &mut Vec<Fault>) -> Settings {
    let mut settings = draft.settings;
    settings.rate_limit = draft.per_second.map(|per_second| RateLimit { per_second, burst: draft.burst });
    settings.analysis.llm = settle_llm(draft.llm, settings.analysis.engine, faults);
    settings.tls = draft.tls.settle(settings.listen, faults);
    settings.cluster = draft.cluster.settle(&settings, faults);
    settings.sample = draft.organizations.is_empty();
    settings.organizations = if settings.sample {
        let document = Document::new(Path::new("config/acme.toml (embedded)"), SAMPLE_TOML.to_owned());
        let sample = organization::read(&document, faults);
        sample.into_iter().map(|(organization, _)| organization).collect()
    } else {
        let declared = read_organizations(draft.organizations, faults);
        declared.into_iter().map(|(_, organization)| organization).collect()
    };
    settings
}

/// A model needs a URL and a name; without both, there is none.
fn settle_llm(llm: AnalysisLlm, engine: AnalysisEngine, faults: &mut Vec<Fault>) -> Option<AnalysisLlm> {
    let missing = match (llm.url.is_empty(), llm.model.is_empty()) {
        (false, false) => return Some(llm),
        (true, true) if engine != AnalysisEngine::Llm => return None,
        (true, _) => "LOCKKEEPER_ANALYSIS_LLM_URL",
        (false, true) => "LOCKKEEPER_ANALYSIS_LLM_MODEL",
    };
    let message = "is not set, nor its key in a file: a model takes both analysis.llm_url and analysis.llm_model";
    faults.push(Fault::new(Place::Variable(missing.to_owned()), message.to_owned()));
    None
}

fn read_organizations(files: Vec<(PathBuf, Place)>, faults: &mut Vec<Fault>) -> Vec<(PathBuf, Organization)> {
    let mut places = HashMap::new();
    let mut organizations = Vec::with_capacity(files.len());
    for (path, named_at) in files {
        let document = match Document::read(&path) {
            Ok(document) => document,
            Err(reason) => {
                faults.push(unreadable_organization(&path, named_at, &reason));
                continue;
            }
        };
        let Some((organization, place)) = organization::read(&document, faults) else {
            continue;
        };
        if let Some(first) = places.get(&organization.id) {
            let message = format!("organization.id `{}` is taken: {first} has it", organization.id);
            faults.push(Fault::new(place, message));
            continue;
        }
        places.insert(organization.id.clone(), place);
        organizations.push((path, organization));
    }
    organizations
}

fn unreadable_organization(path: &Path, named_at: Place, reason: &str) -> Fault {
    let from = match named_at {
        Place::Variable(_) => "the working directory",
        Place::File(_) | Place::Line(..) | Place::Column(..) | Place::Flag(_) => "the file that names it",
    };
    let message = format!("organizations: cannot read `{}`: {reason}", path.display());
    Fault::new(named_at, format!("{message}; a relative path starts from {from}"))
}

/// Checks one file without starting anything: an organization file, or a settings file and the organizations it names.
pub fn check_file(path: &Path) -> Result<Summary, Faults> {
    let mut faults = Vec::new();
    let summary = match Document::read(path) {
        Ok(document) => check_document(&document, &mut faults),
        Err(reason) => {
            faults.push(Fault::new(Place::File(path.into()), format!("cannot read it: {reason}")));
            Summary::default()
        }
    };
    Faults::none_of(faults)?;
    Ok(summary)
}

fn check_document(document: &Document, faults: &mut Vec<Fault>) -> Summary {
    let declares_organization = document.parse().is_ok_and(|table| layers::declares_organization(table.get_ref()));
    let path = document.path().to_owned();
    if declares_organization {
        let organization = organization::read(document, faults);
        return Summary {
            settings: None,
            organizations: organization.into_iter().map(|(found, _)| (path.clone(), found)).collect(),
            warnings: Vec::new(),
        };
    }
    let mut draft = defaults(faults);
    layers::lay_file(document, &mut draft, faults);
    let warnings = draft.tls.check_files(faults);
    draft.tls.settle(draft.settings.listen, faults);
    Summary { settings: Some(path), organizations: read_organizations(draft.organizations, faults), warnings }
}

/// A summary of checked files, one line per file and warning.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    pub settings: Option<PathBuf>,
    pub organizations: Vec<(PathBuf, Organization)>,
    /// What is no fault, and should not stay so.
    pub warnings: Vec<String>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.settings {
            let served = match self.organizations.len() {
                0 => "no organization files, so the sample organization is served".to_owned(),
                count => counted(count, "organization"),
            };
            write!(f, "{}: settings, {served}", path.display())?;
        }
        for (index, (path, organization)) in self.organizations.iter().enumerate() {
            if index > 0 || self.settings.is_some() {
                writeln!(f)?;
            }
            let environments = organization.pipelines.iter().map(|pipeline| pipeline.environments.len()).sum();
            write!(
                f,
                "{}: organization {}, {}, {}, {}",
                path.display(),
                organization.id,
                counted(organization.members.len(), "member"),
                counted(organization.pipelines.len(), "pipeline"),
                counted(environments, "environment"),
            )?;
            let pipelines = organization.pipelines.iter();
            let uses: usize = pipelines.map(|pipeline| pipeline.blueprint.uses().count()).sum();
            if uses > 0 {
                write!(f, "; {} of registries, which only a server can check", counted(uses, "step"))?;
            }
        }
        self.warnings.iter().try_for_each(|warning| write!(f, "\nwarning: {warning}"))
    }
}

fn counted(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}
