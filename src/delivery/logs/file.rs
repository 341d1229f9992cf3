//! The names of the files of logs, pure. On one machine a deployment has one file. In a cluster it has one for each part of its
//! log, and the name tells the organization too: a node also has logs whose records lie on others.

use std::fmt;
use std::path::Path;

use domain::{DeploymentId, Identifier};

pub(super) const EXTENSION: &str = "log";
/// Of the empty file beside a log that is not in the store yet.
pub(super) const PENDING: &str = "upload";
/// Of a log that is being fetched from elsewhere.
pub(super) const FETCHED: &str = "fetch";

/// The file of a log, or of a part of one. Sorts by age.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogFile {
    pub deployment: DeploymentId,
    /// Of the part.
    pub number: u32,
    /// `None` on one machine.
    pub organization: Option<Identifier>,
}

/// The log of a deployment, with the numbers of its parts in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogId {
    pub organization: Identifier,
    pub deployment: DeploymentId,
    pub parts: Vec<u32>,
}

impl LogId {
    /// A log that is written by one machine.
    pub fn whole(organization: &Identifier, deployment: DeploymentId) -> Self {
        Self::of(organization, deployment, [])
    }

    /// Of these parts; if none are known, there is one.
    pub fn of(organization: &Identifier, deployment: DeploymentId, parts: impl IntoIterator<Item = u32>) -> Self {
        let mut parts: Vec<_> = parts.into_iter().collect();
        if parts.is_empty() {
            parts.push(0);
        }
        Self { organization: organization.clone(), deployment, parts }
    }
}

impl LogFile {
    pub(super) fn name(&self, extension: &str) -> String {
        format!("{self}.{extension}")
    }

    /// The file with this name and extension, if it is one of ours.
    pub(super) fn parse(name: &Path, extension: &str) -> Option<Self> {
        if name.extension()? != extension {
            return None;
        }
        let mut words = name.file_stem()?.to_str()?.splitn(3, '.');
        let deployment = words.next()?.parse().ok()?;
        let Some(number) = words.next() else {
            return Some(Self { deployment, number: 0, organization: None });
        };
        let organization = Some(Identifier::parse(words.next()?).ok()?);
        let file = Self { deployment, number: number.parse().ok()?, organization };
        // Not another spelling of the same.
        (name.file_stem()?.to_str()? == file.to_string()).then_some(file)
    }
}

impl fmt::Display for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.organization {
            None => write!(f, "{}", self.deployment),
            Some(organization) => write!(f, "{}.{}.{organization}", self.deployment, self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::IdSeed;

    #[test]
    fn a_file_is_known_by_its_name_and_nothing_else_is_one() {
        let deployment = DeploymentId(IdSeed([7; 12]));
        let acme = Identifier::parse("acme").unwrap();
        let dotted = Identifier::parse("acme.more").unwrap();
        for (number, organization) in [(0, None), (0, Some(acme.clone())), (12, Some(acme)), (1, Some(dotted))] {
            let file = LogFile { deployment, number, organization };
            let name = file.name(EXTENSION);
            assert_eq!(LogFile::parse(Path::new(&name), EXTENSION), Some(file));
            assert_eq!(LogFile::parse(Path::new(&name), PENDING), None);
        }
        for name in ["log", ".log", "x.log", "{d}.1.log", "{d}.x.acme.log", "{d}.01.acme.log", "{d}.1.A!.log"] {
            let name = name.replace("{d}", &deployment.to_string());
            assert_eq!(LogFile::parse(Path::new(&name), EXTENSION), None, "{name}");
        }
    }

    #[test]
    fn files_sort_by_age() {
        let file = |seed, number| LogFile { deployment: DeploymentId(IdSeed([seed; 12])), number, organization: None };
        let mut files = vec![file(2, 0), file(1, 1), file(1, 0)];
        files.sort();
        assert_eq!(files, [file(1, 0), file(1, 1), file(2, 0)]);
    }
}
