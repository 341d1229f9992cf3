//! The configuration from the operator's view: files on a disk, variables and flags as input, settings or faults as
//! output.
#![allow(clippy::unwrap_used)]

mod bounds;
mod cluster;
mod defaults;
mod faults;
mod fuzz;
mod layering;
mod organizations;
mod pipelines;
mod properties;
mod sign_ins;
mod tls;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::keys::Key;
use super::{Faults, Flags, Settings, load};
use crate::forms::ObjectForm;

/// A directory with the files of one test.
struct Files(TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The fault lines, without the directory.
    fn lines(&self, faults: &Faults) -> Vec<String> {
        let directory = format!("{}/", self.0.path().display());
        lines(faults).iter().map(|line| line.replace(&directory, "")).collect()
    }

    /// Starts with the file `lk.toml` and these variables.
    fn load(&self, variables: &[(&str, &str)]) -> Result<Settings, Vec<String>> {
        load(&with_config(&self.path("lk.toml")), variables.iter().copied()).map_err(|faults| self.lines(&faults))
    }
}

fn lines(faults: &Faults) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

fn with_config(path: &Path) -> Flags {
    Flags { config: Some(path.to_owned()), ..Flags::default() }
}

/// Starts without a file.
fn load_variables(variables: &[(&str, &str)]) -> Result<Settings, Vec<String>> {
    load(&Flags::default(), variables.iter().copied()).map_err(|faults| lines(&faults))
}

/// Starts with a file with this text.
fn load_text(text: &str) -> Result<Settings, Vec<String>> {
    Files::new(&[("lk.toml", text)]).load(&[])
}

/// A file that sets the key to this value.
fn file(name: &str, value: &str) -> String {
    match name.split_once('.') {
        Some((section, key)) => format!("[{section}]\n{key} = {value}\n"),
        None => format!("{name} = {value}\n"),
    }
}

/// The allowed values of a key, from the fault for a value that no key accepts.
fn allowed(key: &Key) -> String {
    let faults = load_text(&file(key.name, "{ a = 1 }")).unwrap_err();
    let allowed = faults[0].split_once(" must be ").map_or("", |(_, allowed)| allowed);
    allowed.strip_suffix(", got a table").unwrap_or(allowed).to_owned()
}

/// The bounds of a number, if the allowed values are one; `what` begins the sentence.
fn bounds(allowed: &str, what: &str) -> Option<(u32, u32)> {
    let (min, max) = allowed.strip_prefix(what)?.split_once(" to ")?;
    Some((min.parse().unwrap(), max.strip_suffix(", or \"off\"").unwrap_or(max).parse().unwrap()))
}

/// The bounds of a key that is a number, or "off".
fn number(key: &Key) -> Option<(u32, u32)> {
    bounds(&allowed(key), "an integer from ")
}

/// The keys of a form, spelled as in a file.
fn keys<T: ObjectForm>() -> Vec<&'static str> {
    let mut keys = Vec::new();
    T::each_name(&mut |name| keys.push(name));
    keys
}
