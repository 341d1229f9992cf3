//! The layers of the settings: defaults, a file, environment variables, flags. Each overrides the one before. Every
//! layer is checked completely, even where a later one overrides it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::document::{Document, type_of};
use super::fault::{Fault, SourceLocation};
use super::keys::{CONFIG_VARIABLE, Key, PREFIX, is_section, unknown_key, unknown_variable, variable};
use super::kinds::Kind;
use super::organization;
use super::value::{RawValue, check_count};

/// Every key with its default, with comments for operators.
pub const DEFAULT_TOML: &str = include_str!("../../../config/default.toml");

pub(super) const CLIENT_TOKEN: &str = "LOCKKEEPER_TOKEN";
pub(super) const IDENTITY_TOKEN: &str = "LOCKKEEPER_IDENTITY_TOKEN";
/// Variables of steps and of client programs, which a server may inherit.
const NOT_SETTINGS: [&str; 17] = [
    CONFIG_VARIABLE,
    "LOCKKEEPER_ORGANIZATION",
    "LOCKKEEPER_PIPELINE",
    "LOCKKEEPER_ENVIRONMENT",
    "LOCKKEEPER_SESSION",
    "LOCKKEEPER_COMMIT",
    "LOCKKEEPER_FENCING_TOKEN",
    "LOCKKEEPER_DEPLOYMENT",
    "LOCKKEEPER_STAGE",
    "LOCKKEEPER_URL",
    CLIENT_TOKEN,
    "LOCKKEEPER_TOKEN_FILE",
    "LOCKKEEPER_PROFILE",
    "LOCKKEEPER_CA_FILE",
    IDENTITY_TOKEN,
    "LOCKKEEPER_IDENTITY_TOKEN_FILE",
    "LOCKKEEPER_AUDIENCE",
];
/// More organizations than one server should have, and few enough to read at each start.
const ORGANIZATIONS_MAX: usize = 1_000;
const PREFIX_OF_TESTS: &str = "LOCKKEEPER_TEST_";

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

/// Declares a section of the settings: each field with the method of `Layers` that reads it, its key and its kind.
macro_rules! section {
    (
        $(#[$meta:meta])*
        $vis:vis struct $section:ident {
            $($(#[$doc:meta])* $field_vis:vis $field:ident: $type:ty = $method:ident($($argument:expr),*),)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        $vis struct $section {
            $($(#[$doc])* $field_vis $field: $type,)*
        }

        impl $section {
            pub(super) fn read(layers: &mut $crate::config::layers::Layers<'_>) -> Self {
                Self { $($field: layers.$method($($argument),*),)* }
            }
        }
    };
}

pub(super) use section;

/// The reason to load settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Starting a server, which also checks the files of TLS.
    Serve,
    /// Any other command.
    Command,
    /// Checking a settings file: variables may set whatever it lacks.
    Check,
}

/// The environment variables, by name.
pub(super) type Variables = BTreeMap<OsString, OsString>;

/// The sources of settings, and the findings in them.
pub(super) struct Layers<'a> {
    pub(super) purpose: Purpose,
    /// The defaults, then the settings file.
    files: &'a [(&'a Document, DeTable<'a>)],
    variables: &'a Variables,
    flags: &'a Flags,
    pub(super) findings: Findings,
    /// Faults that concern several values.
    conflicts: Vec<Fault>,
}

/// The findings other than values.
#[derive(Default)]
pub(super) struct Findings {
    /// The keys, in the order in which they were read.
    pub(super) keys: Vec<Key>,
    /// In the order of the layers and, within a file, of its lines; then the conflicts between values.
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<String>,
}

/// Reads settings from the layers.
pub(super) fn read<T>(
    purpose: Purpose,
    file: Option<&Document>,
    variables: &Variables,
    flags: &Flags,
    read: impl FnOnce(&mut Layers<'_>) -> T,
) -> (T, Findings) {
    let defaults = Document::new(Path::new("config/default.toml (embedded)"), DEFAULT_TOML.to_owned());
    let (mut files, mut faults) = (Vec::new(), Vec::new());
    for document in std::iter::once(&defaults).chain(file) {
        match parse(document) {
            Ok(table) => files.push((document, table)),
            Err(refused) => faults.extend(refused),
        }
    }
    let (findings, conflicts) = (Findings::default(), Vec::new());
    let mut layers = Layers { purpose, files: &files, variables, flags, findings, conflicts };
    let settings = read(&mut layers);
    layers.refuse_unknown_keys();
    layers.refuse_unknown_variables();
    let Layers { mut findings, conflicts, .. } = layers;
    findings.faults.sort_by(|one, other| one.location.cmp(&other.location));
    faults.extend(findings.faults.into_iter().chain(conflicts));
    (settings, Findings { faults, ..findings })
}

fn parse(document: &Document) -> Result<DeTable<'_>, Vec<Fault>> {
    let table = document.parse()?.into_inner();
    if organization::declares_one(&table) {
        let message = "this is an organization file; name it in `organizations` of a settings file, \
                       or in LOCKKEEPER_ORGANIZATIONS";
        return Err(vec![Fault::new(document.whole(), message.to_owned())]);
    }
    Ok(table)
}

impl<'a> Layers<'a> {
    /// The value in the highest layer that has the key.
    pub(super) fn get<T>(&mut self, name: &'static str, kind: Kind<T>) -> T {
        let value = self.all(name, kind, false).pop();
        value.expect("config/default.toml has every key that is not secret")
    }

    /// A value that is only taken from a variable.
    pub(super) fn secret<T>(&mut self, name: &'static str, kind: Kind<T>) -> Option<T> {
        self.all(name, kind, true).pop()
    }

    /// Whether the operator has set this key.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.raw(name).len() > 1
    }

    /// The organization files, each with the location of its entry in the settings. Each entry has its own fault.
    pub(super) fn organization_files(&mut self) -> Vec<(PathBuf, SourceLocation)> {
        const NAME: &str = "organizations";
        let kind = Kind::new(format!("a list of at most {ORGANIZATIONS_MAX} paths of files"), |value| {
            let entries = value.entries(b':')?;
            let path = |entry: &RawValue<'_>| (entry.located_path(), entry.location());
            check_count(entries.iter().map(path).collect(), ORGANIZATIONS_MAX)
        });
        let mut files = Vec::new();
        for entries in self.all(NAME, kind, false) {
            files.clear();
            for (path, location) in entries {
                match path {
                    Ok(path) => files.push((path, location)),
                    Err(error) => self.findings.faults.push(error.fault(location, NAME, "paths of files")),
                }
            }
        }
        files
    }

    /// The values of all layers that have the key, the highest last.
    fn all<T>(&mut self, name: &'static str, kind: Kind<T>, is_secret: bool) -> Vec<T> {
        let mut values = Vec::new();
        for raw in self.raw(name) {
            let location = raw.location();
            if is_secret && raw.is_in_file() {
                self.findings.faults.push(secret_in_file(location, name));
                continue;
            }
            match (kind.parse)(&raw) {
                Ok(value) => values.push(value),
                Err(error) => self.findings.faults.push(error.fault(location, name, &kind.allowed)),
            }
        }
        self.findings.keys.push(Key { name, is_secret });
        values
    }

    fn raw(&self, name: &str) -> Vec<RawValue<'a>> {
        let in_file = |(document, table): &'a (&'a Document, DeTable<'a>)| {
            let value = match name.split_once('.') {
                Some((section, key)) => table.get(section)?.get_ref().as_table()?.get(key)?,
                None => table.get(name)?,
            };
            Some(RawValue::InFile { document, value })
        };
        let variable = variable(name);
        let in_variable =
            self.variables.get(OsStr::new(&variable)).map(|text| (SourceLocation::Variable(variable), &**text));
        let flag = match name {
            "data_dir" => {
                self.flags.data_dir.as_ref().map(|path| (SourceLocation::Flag("--data-dir"), path.as_os_str()))
            }
            "listen" => self.flags.listen.as_ref().map(|text| (SourceLocation::Flag("--listen"), OsStr::new(text))),
            _ => None,
        };
        let texts = in_variable.into_iter().chain(flag).map(|(location, text)| RawValue::Text { location, text });
        self.files.iter().filter_map(in_file).chain(texts).collect()
    }

    /// A variable other than our own; `None` if it is empty.
    pub(super) fn variable(&self, name: &str) -> Option<&'a OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// Reports a value that contradicts others.
    pub(super) fn conflict(&mut self, name: &str, message: impl Into<String>) {
        let fault = |value: &RawValue<'_>| Fault::new(value.location(), message.into());
        self.conflicts.extend(self.raw(name).last().map(fault));
    }

    /// Reports a variable that contradicts the settings.
    pub(super) fn variable_fault(&mut self, variable: &str, message: impl Into<String>) {
        self.conflicts.push(Fault::new(SourceLocation::Variable(variable.to_owned()), message.into()));
    }

    /// Reports a missing variable that other settings require. Does nothing if only a file is checked.
    pub(super) fn missing(&mut self, variable: &str, why: &str) {
        if self.purpose != Purpose::Check {
            self.variable_fault(variable, format!("is not set{why}"));
        }
    }

    fn refuse_unknown_keys(&mut self) {
        let is_key = |name: &str| self.findings.keys.iter().any(|key| key.name == name);
        for (document, table) in self.files {
            for (name, value) in table {
                let (key, name) = (name, name.get_ref());
                if is_key(name) {
                    continue;
                }
                if !is_section(&self.findings.keys, name) {
                    self.findings.faults.push(unknown_key(&self.findings.keys, document.location(key), name));
                    continue;
                }
                let Some(section) = value.get_ref().as_table() else {
                    let (location, table) = (document.location(value), format!("a table: [{name}]"));
                    self.findings.faults.push(Fault::must_be(location, name, &table, Some(type_of(value.get_ref()))));
                    continue;
                };
                for key in section.keys() {
                    let name = format!("{name}.{}", key.get_ref());
                    if !is_key(&name) {
                        self.findings.faults.push(unknown_key(&self.findings.keys, document.location(key), &name));
                    }
                }
            }
        }
    }

    fn refuse_unknown_variables(&mut self) {
        for name in self.variables.keys().filter(|name| is_ours(name)) {
            let name = name.to_string_lossy();
            let is_setting = self.findings.keys.iter().any(|key| key.variable() == name);
            if !is_setting && !NOT_SETTINGS.contains(&&*name) && !name.starts_with(PREFIX_OF_TESTS) {
                self.findings.faults.push(unknown_variable(&self.findings.keys, &name));
            }
        }
    }
}

fn secret_in_file(location: SourceLocation, name: &str) -> Fault {
    let why = "files are copied, committed and backed up";
    Fault::new(location, format!("{name} is not taken from a file, since {why}; set {} instead", variable(name)))
}

/// Whether an environment variable may be a setting.
pub(super) fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}
