//! Faults of a configuration with their places, as an operator reads them: one line per fault.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::forms::shown;

/// All faults, in the order of the layers and, within a file, of its lines. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter()
    }

    /// `Ok` if there are none.
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

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub(super) place: Place,
    message: String,
}

impl Fault {
    pub(super) fn new(place: Place, message: String) -> Self {
        Self { place, message }
    }

    /// Without the name of the file.
    pub(super) fn within_file(&self) -> String {
        match self.place.line() {
            Some(line) => format!("line {line}: {}", self.message),
            None => self.message.clone(),
        }
    }

    /// A value that its key does not take. `allowed` completes "must be", `got` completes "got".
    pub(super) fn must_be(place: Place, key: &str, allowed: &str, got: Option<&str>) -> Self {
        let got = got.map(|got| format!(", got {got}")).unwrap_or_default();
        Self::new(place, format!("{key} must be {allowed}{got}"))
    }

    /// An unknown name, with the one that was probably meant, or else with `allowed`.
    pub(super) fn unknown(place: Place, what: &str, name: &str, meant: Option<&str>, allowed: &str) -> Self {
        let name = shown(name);
        let advice = meant.map_or_else(|| allowed.to_owned(), |meant| format!("did you mean `{meant}`?"));
        Self::new(place, format!("unknown {what} `{name}`; {advice}"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Where a setting or a fault is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    File(Arc<Path>),
    Line(Arc<Path>, usize),
    Column(Arc<Path>, usize, usize),
    Variable(String),
    Flag(&'static str),
}

impl Place {
    pub(super) fn line(&self) -> Option<usize> {
        match self {
            Place::Line(_, line) | Place::Column(_, line, _) => Some(*line),
            Place::File(_) | Place::Variable(_) | Place::Flag(_) => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => write!(f, "{}", path.display()),
            Place::Line(path, line) => write!(f, "{}:{line}", path.display()),
            Place::Column(path, line, column) => write!(f, "{}:{line}:{column}", path.display()),
            Place::Variable(name) => f.write_str(&shown(name)),
            Place::Flag(flag) => f.write_str(flag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_counts() {
        let fault = Fault::new(Place::Flag("--listen"), "listen must be better".to_owned());
        assert_eq!(
            Faults(vec![fault.clone()]).to_string(),
            "the configuration has 1 fault\n  --listen: listen must be better"
        );
        assert!(Faults(vec![fault.clone(), fault]).to_string().starts_with("the configuration has 2 faults\n"));
        assert_eq!(Faults::none_of(Vec::new()), Ok(()));
    }
}
