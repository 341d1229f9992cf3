//! What can be wrong with a configuration and where, as an operator reads it: one line a fault.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Everything that is wrong, in the order of the layers and, within a file, of its lines. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter()
    }

    /// `Ok` where nothing was found.
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

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub(super) place: Place,
    message: String,
}

impl Fault {
    pub(super) fn new(place: Place, message: String) -> Self {
        Self { place, message }
    }

    /// Without the file, for one that the reader has named.
    pub(super) fn within_file(&self) -> String {
        match self.place.line() {
            Some(line) => format!("line {line}: {}", self.message),
            None => self.message.clone(),
        }
    }

    /// For a value that is not what its key takes. `allowed` completes "must be", `got` completes "not".
    pub(super) fn must_be(place: Place, key: &str, allowed: &str, got: Option<&str>) -> Self {
        let not = got.map(|got| format!(", not {got}")).unwrap_or_default();
        Self::new(place, format!("{key} must be {allowed}{not}"))
    }

    /// For a name that nothing has: what was probably meant, or else `allowed`, which completes a sentence after a ';'.
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

/// Where a setting was given.
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

/// Longer names are cut where they are shown, and not compared: none of ours comes near it.
const NAME_MAX: usize = 80;

/// A name from outside as it can stand in one line on a terminal.
pub(super) fn shown(name: &str) -> String {
    let cut: String = name.chars().take(NAME_MAX).collect();
    let dots = if cut.len() < name.len() { "…" } else { "" };
    format!("{}{dots}", cut.escape_debug())
}

/// The candidate that `name` is probably a slip of.
pub(super) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_MAX {
        return None;
    }
    // One slip in every three characters, and three at most: beyond that, a guess misleads.
    let tolerated = (name.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_and_a_far_one_is_not() {
        let names = ["listen", "workers", "data_dir"];
        assert_eq!(nearest("worker", names), Some("workers"));
        assert_eq!(nearest("datadir", names), Some("data_dir"));
        assert_eq!(nearest("frobnicate", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"listen".repeat(1000), names), None);
    }

    #[test]
    fn a_name_from_outside_stays_on_its_line() {
        assert_eq!(shown("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), NAME_MAX + 1);
    }

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
