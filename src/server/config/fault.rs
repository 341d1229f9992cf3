//! Faults of a configuration with their locations, as an operator reads them: one line per fault.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::forms::shown;

/// All faults, in the order of the layers and, within a file, of the lines. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter()
    }

    /// `Ok` without faults.
    pub(super) fn none_of(found: Vec<Fault>) -> Result<(), Self> {
        if found.is_empty() { Ok(()) } else { Err(Self(found)) }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(f, "the configuration has 1 fault")?,
            count => write!(f, "the configuration has {count} faults")?,
        }
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl std::error::Error for Faults {}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub(super) location: SourceLocation,
    message: String,
}

impl Fault {
    pub(super) fn new(location: SourceLocation, message: String) -> Self {
        Self { location, message }
    }

    /// The fault without the name of its file.
    pub(super) fn within_file(&self) -> String {
        match self.location.line() {
            Some(line) => format!("line {line}: {}", self.message),
            None => self.message.clone(),
        }
    }

    /// A value that the key does not accept. `allowed` completes "must be", `got` completes "got".
    pub(super) fn must_be(location: SourceLocation, key: &str, allowed: &str, got: Option<&str>) -> Self {
        let got = got.map(|got| format!(", got {got}")).unwrap_or_default();
        Self::new(location, format!("{key} must be {allowed}{got}"))
    }

    /// An unknown name, with the similar name `meant`, or else with `allowed`.
    pub(super) fn unknown(
        location: SourceLocation,
        what: &str,
        name: &str,
        meant: Option<&str>,
        allowed: &str,
    ) -> Self {
        let name = shown(name);
        let advice = meant.map_or_else(|| allowed.to_owned(), |meant| format!("did you mean `{meant}`?"));
        Self::new(location, format!("unknown {what} `{name}`; {advice}"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

/// Where a value or a fault is, in the order in which faults are reported.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SourceLocation {
    File(Arc<Path>),
    Line(Arc<Path>, usize),
    Column(Arc<Path>, usize, usize),
    Variable(String),
    Flag(&'static str),
}

impl SourceLocation {
    pub(super) fn line(&self) -> Option<usize> {
        match self {
            SourceLocation::Line(_, line) | SourceLocation::Column(_, line, _) => Some(*line),
            SourceLocation::File(_) | SourceLocation::Variable(_) | SourceLocation::Flag(_) => None,
        }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceLocation::File(path) => write!(f, "{}", path.display()),
            SourceLocation::Line(path, line) => write!(f, "{}:{line}", path.display()),
            SourceLocation::Column(path, line, column) => write!(f, "{}:{line}:{column}", path.display()),
            SourceLocation::Variable(name) => f.write_str(&shown(name)),
            SourceLocation::Flag(flag) => f.write_str(flag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_counts() {
        let fault = Fault::new(SourceLocation::Flag("--listen"), "listen must be better".to_owned());
        assert_eq!(
            Faults(vec![fault.clone()]).to_string(),
            "the configuration has 1 fault\n  --listen: listen must be better"
        );
        assert!(Faults(vec![fault.clone(), fault]).to_string().starts_with("the configuration has 2 faults\n"));
        assert_eq!(Faults::none_of(Vec::new()), Ok(()));
    }
}
