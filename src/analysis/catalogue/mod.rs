//! The analysis's knowledge of failures, as data: the files of this folder, embedded in the program and parsed on first
//! use. A fault in one of them fails the tests of this module, with its file and line.
//!
//! | file | content |
//! |---|---|
//! | `signatures/` | how a line names a failure, one file per theme |
//! | `tools.toml` | which tool wrote a line |
//! | `noise.toml` | lines that mention failures without being one |
//! | `lines.toml` | the prefixes that CIs and tools add to lines |
//! | `exits.toml` | the meaning of an exit code or a signal alone |
//! | `categories.toml` | the general meaning of a category |
//! | `consequences.toml` | which failures follow from which |
//! | `paths.toml` | paths outside the commit |
//! | `python-packages.toml` | the packages of Python modules |
//! | `credentials.toml` | patterns of credentials, for the engine that asks a model |
//! | `translations/` | messages in other languages |

use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// A file of the catalogue.
#[derive(Clone, Copy)]
pub(super) struct File {
    name: &'static str,
    pub text: &'static str,
}

macro_rules! file {
    ($name:literal) => {
        File { name: $name, text: include_str!($name) }
    };
}

pub(super) const TOOLS: File = file!("tools.toml");
pub(super) const NOISE: File = file!("noise.toml");
pub(super) const LINES: File = file!("lines.toml");
pub(super) const EXITS: File = file!("exits.toml");
pub(super) const CATEGORIES: File = file!("categories.toml");
pub(super) const CONSEQUENCES: File = file!("consequences.toml");
pub(super) const PATHS: File = file!("paths.toml");
pub(super) const PYTHON_PACKAGES: File = file!("python-packages.toml");
pub(super) const CREDENTIALS: File = file!("credentials.toml");
/// If several translations match, the one from the first file is used.
pub(super) const TRANSLATIONS: [File; 2] = [file!("translations/others.txt"), file!("translations/catalogues.txt")];
/// If several signatures of equal weight match, the earlier one is used.
pub(super) const SIGNATURES: [File; 23] = [
    file!("signatures/ci.toml"),
    file!("signatures/interruptions.toml"),
    file!("signatures/shell.toml"),
    file!("signatures/files.toml"),
    file!("signatures/variables.toml"),
    file!("signatures/access.toml"),
    file!("signatures/network.toml"),
    file!("signatures/limits.toml"),
    file!("signatures/exists.toml"),
    file!("signatures/scans.toml"),
    file!("signatures/resources.toml"),
    file!("signatures/containers.toml"),
    file!("signatures/toolchains.toml"),
    file!("signatures/dependencies.toml"),
    file!("signatures/code.toml"),
    file!("signatures/build.toml"),
    file!("signatures/compilers.toml"),
    file!("signatures/linters.toml"),
    file!("signatures/testing.toml"),
    file!("signatures/data.toml"),
    file!("signatures/history.toml"),
    file!("signatures/general.toml"),
    file!("signatures/vague.toml"),
];

impl File {
    /// Parses the content of the file. Panics at a fault, which the tests exclude.
    pub fn read<T: DeserializeOwned>(self) -> T {
        self.parse().unwrap_or_else(|fault| panic!("{fault}"))
    }

    fn parse<T: DeserializeOwned>(self) -> Result<T, String> {
        toml::from_str(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format!("{}: {}", self.place(at), error.message())
        })
    }

    /// The file and the line at a byte offset.
    pub fn place(self, at: usize) -> String {
        let line = self.text[..at].matches('\n').count() + 1;
        format!("src/analysis/catalogue/{}:{line}", self.name)
    }
}

/// A regular expression, in any letter case and with ASCII classes. Compiled on first use.
#[derive(Debug)]
pub(super) struct Pattern {
    text: String,
    compiled: OnceLock<Regex>,
}

impl Pattern {
    pub fn new(text: String) -> Self {
        Self { text, compiled: OnceLock::new() }
    }

    pub fn regex(&self) -> &Regex {
        self.compiled.get_or_init(|| compile(&self.text).expect("a test compiles every pattern of the catalogue"))
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.regex().is_match(text.as_bytes())
    }
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).unicode(false).case_insensitive(true).build()
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        PatternText::deserialize(from).map(|checked| Self::new(checked.0))
    }
}

/// The text of a pattern. Tests compile it when it is read, so that their error names its location.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub(super) struct PatternText(pub String);

impl TryFrom<String> for PatternText {
    type Error = regex::Error;

    fn try_from(pattern: String) -> Result<Self, regex::Error> {
        if cfg!(test) {
            compile(&pattern)?;
        }
        Ok(Self(pattern))
    }
}

/// A list of patterns, any of which may match.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct AnyOf(Vec<PatternText>);

impl AnyOf {
    /// As one pattern.
    pub fn joined(&self) -> String {
        self.0.iter().map(|pattern| pattern.0.as_str()).collect::<Vec<_>>().join("|")
    }

    pub fn pattern(&self) -> Pattern {
        Pattern::new(self.joined())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Sample {
        pattern: Pattern,
        other: Option<u8>,
    }

    #[test]
    fn a_fault_is_reported_with_its_file_and_line() {
        for (text, line, reason) in [
            ("pattern = 'a'\nother = 1", 0, ""),
            ("\n\npattern = '('", 3, "unclosed group"),
            ("pattern = 'a'\notther = 1", 2, "unknown field `otther`"),
            ("pattern = 'a'\nother = 'x'", 2, "invalid type"),
            ("pattern = 'a'\nother = ", 2, ""),
        ] {
            let file = File { name: "sample.toml", text };
            let place = format!("src/analysis/catalogue/sample.toml:{line}: ");
            match file.parse::<Sample>() {
                Ok(_) => assert_eq!(line, 0, "{text}"),
                Err(fault) => assert!(fault.starts_with(&place) && fault.contains(reason), "{fault}"),
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_embedded_once() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("catalogue");
        let mut files = BTreeSet::new();
        for below in ["", "signatures/", "translations/"] {
            for entry in std::fs::read_dir(folder.join(below)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                if name.ends_with(".toml") || name.ends_with(".txt") {
                    files.insert(format!("{below}{name}"));
                }
            }
        }
        let others = [TOOLS, NOISE, LINES, EXITS, CATEGORIES, CONSEQUENCES, PATHS, PYTHON_PACKAGES, CREDENTIALS];
        let embedded = others.iter().chain(&TRANSLATIONS).chain(&SIGNATURES);
        let embedded: Vec<String> = embedded.map(|file| file.name.to_owned()).collect();
        assert_eq!(embedded.len(), files.len());
        assert_eq!(embedded.into_iter().collect::<BTreeSet<_>>(), files);
    }
}
