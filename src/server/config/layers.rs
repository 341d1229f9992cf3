//! The layers of the settings, each over the one before: defaults, a file, environment variables, flags. Every layer is
//! checked completely, even where a later one overrides it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::document::{Document, type_of};
use super::fault::{Fault, Place};
use super::given::Given;
use super::keys::{Draft, KEYS, Key};
use super::{cluster, organization};
use domain::nearest::nearest;

/// The flags of the command line.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--data-dir`
    pub data_dir: Option<PathBuf>,
    /// `--listen`
    pub listen: Option<String>,
}

pub(super) const PREFIX: &str = "LOCKKEEPER_";
/// Names the settings file if `--config` does not.
pub(super) const CONFIG_VARIABLE: &str = "LOCKKEEPER_CONFIG";
/// Variables of steps: a server that a step starts has them, and they are not settings.
const OF_STEPS: [&str; 8] = [
    "LOCKKEEPER_ORGANIZATION",
    "LOCKKEEPER_PIPELINE",
    "LOCKKEEPER_ENVIRONMENT",
    "LOCKKEEPER_SESSION",
    "LOCKKEEPER_COMMIT",
    "LOCKKEEPER_FENCING_TOKEN",
    "LOCKKEEPER_DEPLOYMENT",
    "LOCKKEEPER_STAGE",
];
/// Variables of client programs, which a server started by hand has too; those that steps have as well are above.
const OF_CLIENTS: [&str; 8] = [
    "LOCKKEEPER_URL",
    CLIENT_TOKEN,
    "LOCKKEEPER_TOKEN_FILE",
    "LOCKKEEPER_PROFILE",
    "LOCKKEEPER_CA_FILE",
    IDENTITY_TOKEN,
    "LOCKKEEPER_IDENTITY_TOKEN_FILE",
    "LOCKKEEPER_AUDIENCE",
];
const CLIENT_TOKEN: &str = "LOCKKEEPER_TOKEN";
const IDENTITY_TOKEN: &str = "LOCKKEEPER_IDENTITY_TOKEN";
const OF_TESTS: &str = "LOCKKEEPER_TEST_";

pub(super) fn lay_file(document: &Document, draft: &mut Draft, faults: &mut Vec<Fault>) {
    let table = match document.parse() {
        Ok(table) => table,
        Err(mut syntax) => return faults.append(&mut syntax),
    };
    if declares_organization(table.get_ref()) {
        let message = "this is an organization file; name it in `organizations` of a settings file, \
                       or in LOCKKEEPER_ORGANIZATIONS";
        return faults.push(Fault::new(document.whole(), message.to_owned()));
    }
    let mut found = Vec::new();
    for (name, value) in table.get_ref() {
        match value.get_ref().as_table() {
            Some(section) if is_section(name.get_ref()) => {
                for (inner, value) in section {
                    let dotted = format!("{}.{}", name.get_ref(), inner.get_ref());
                    lay_value(document, &dotted, inner, value, draft, &mut found);
                }
            }
            _ => lay_value(document, name.get_ref(), name, value, draft, &mut found),
        }
    }
    // Tables come in alphabetical order; the operator reads from the top.
    found.sort_by_key(|fault| fault.place.line());
    faults.append(&mut found);
}

pub(super) fn declares_organization(table: &DeTable<'_>) -> bool {
    table.keys().any(|key| organization::is_top_level(key.get_ref()))
}

fn lay_value<'a>(
    document: &'a Document,
    name: &str,
    key: &Spanned<DeString<'_>>,
    value: &'a Spanned<DeValue<'a>>,
    draft: &mut Draft,
    faults: &mut Vec<Fault>,
) {
    if let Some(key) = KEYS.iter().find(|key| key.name == name) {
        return key.put(&Given::InFile { document, value }, draft, faults);
    }
    if is_section(name) {
        let got = type_of(value.get_ref());
        let table = format!("a table: [{name}]");
        return faults.push(Fault::must_be(document.place(value), name, &table, Some(got)));
    }
    let meant = meant_key(name);
    let allowed = format!("allowed here: {}", siblings(name).join(", "));
    faults.push(Fault::unknown(document.place(key), "key", name, meant, &allowed));
}

fn meant_key(name: &str) -> Option<&'static str> {
    let names = KEYS.iter().map(|key| key.name);
    let sections = names.clone().filter_map(|name| Some(name.split_once('.')?.0));
    // A key in the wrong section, or in none, is more likely than a misspelling.
    names
        .clone()
        .find(|known| known.rsplit('.').next() == name.rsplit('.').next())
        .or_else(|| nearest(name, names))
        .or_else(|| nearest(name, sections))
}

/// What may stand in a file where `name` does.
fn siblings(name: &str) -> Vec<String> {
    let wanted = name.split_once('.').map(|(section, _)| section);
    let mut siblings: Vec<String> = Vec::new();
    for key in KEYS.iter().filter(|key| !key.kind.is_secret()) {
        let section = key.name.split_once('.').map(|(section, _)| section);
        match section {
            _ if section == wanted => siblings.push(key.name.to_owned()),
            Some(section) if wanted.is_none() => siblings.push(format!("[{section}]")),
            Some(_) | None => {}
        }
    }
    siblings.dedup();
    siblings
}

fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| key.name.split_once('.').is_some_and(|(section, _)| section == name))
}

/// Whether an environment variable may be a setting.
pub(super) fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// Whether an environment variable holds a secret setting, or a token of a client.
pub fn is_secret_variable(name: &OsStr) -> bool {
    [CLIENT_TOKEN, IDENTITY_TOKEN].iter().any(|secret| name == OsStr::new(secret))
        || cluster::is_secret_variable(name)
        || KEYS.iter().any(|key| key.kind.is_secret() && name == OsStr::new(&key.variable()))
}

/// `environment` holds what begins with our prefix.
pub(super) fn lay_environment(environment: &BTreeMap<OsString, OsString>, draft: &mut Draft, faults: &mut Vec<Fault>) {
    for (name, text) in environment {
        let name = name.to_string_lossy();
        let of_others = OF_STEPS.iter().chain(&OF_CLIENTS).any(|other| *other == name);
        let is_no_setting = name == CONFIG_VARIABLE || of_others || name.starts_with(OF_TESTS);
        if is_no_setting {
            continue;
        }
        match KEYS.iter().find(|key| key.variable() == name) {
            Some(key) => lay_text(key, Place::Variable(name.into_owned()), text, draft, faults),
            None => faults.push(unknown_variable(&name)),
        }
    }
}

fn unknown_variable(name: &str) -> Fault {
    let place = Place::Variable(name.to_owned());
    let rest = name.strip_prefix(PREFIX).unwrap_or(name);
    if rest.starts_with("SERVICE_") || rest == "PORT" || rest.starts_with("PORT_") {
        let message = "no setting has this name; if Kubernetes made it, for its service `lockkeeper`, \
                       set `enableServiceLinks: false` in the pod";
        return Fault::new(place, message.to_owned());
    }
    let variables: Vec<String> = KEYS.iter().map(Key::variable).collect();
    let known = variables.iter().filter_map(|variable| variable.strip_prefix(PREFIX));
    // A key without its section is more likely than a misspelling.
    let meant = known
        .clone()
        .find(|known| known.strip_suffix(rest).is_some_and(|section| section.ends_with('_')))
        .or_else(|| nearest(rest, known.chain(CONFIG_VARIABLE.strip_prefix(PREFIX))));
    let advice = meant.map_or_else(
        || "the key `http.drain_seconds`, for one, is LOCKKEEPER_HTTP_DRAIN_SECONDS".to_owned(),
        |meant| format!("did you mean `{PREFIX}{meant}`?"),
    );
    Fault::new(place, format!("no setting has this name; {advice}"))
}

pub(super) fn lay_flags(flags: &Flags, draft: &mut Draft, faults: &mut Vec<Fault>) {
    let given = [
        ("data_dir", "--data-dir", flags.data_dir.as_ref().map(|path| path.as_os_str())),
        ("listen", "--listen", flags.listen.as_ref().map(OsStr::new)),
    ];
    for (name, flag, text) in given {
        let key = KEYS.iter().find(|key| key.name == name);
        if let Some((key, text)) = key.zip(text) {
            lay_text(key, Place::Flag(flag), text, draft, faults);
        }
    }
}

fn lay_text(key: &Key, place: Place, text: &OsStr, draft: &mut Draft, faults: &mut Vec<Fault>) {
    key.put(&Given::Text { place, text }, draft, faults);
}
