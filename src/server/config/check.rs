//! Checks one file without starting anything.

use std::fmt;
use std::path::{Path, PathBuf};

use super::document::Document;
use super::fault::{Fault, Faults, SourceLocation};
use super::layers::{Flags, Purpose, Variables};
use super::organization::{self, Organization};
use super::settings;

/// Checks an organization file, or a settings file and the organizations it names.
pub fn check_file(path: &Path) -> Result<Summary, Faults> {
    let mut faults = Vec::new();
    let summary = match Document::read(path) {
        Ok(document) => check_document(&document, &mut faults),
        Err(reason) => {
            faults.push(Fault::new(SourceLocation::File(path.into()), format!("cannot read it: {reason}")));
            Summary::default()
        }
    };
    Faults::none_of(faults)?;
    Ok(summary)
}

pub(super) fn check_document(document: &Document, faults: &mut Vec<Fault>) -> Summary {
    let path = document.path().to_owned();
    if document.parse().is_ok_and(|table| organization::declares_one(table.get_ref())) {
        let organization = organization::read(document, faults);
        let organizations = organization.into_iter().map(|(organization, _)| (path.clone(), organization)).collect();
        return Summary { organizations, ..Summary::default() };
    }
    let (_, files, findings) = settings::read(Purpose::Check, Some(document), &Variables::new(), &Flags::default());
    faults.extend(findings.faults);
    let organizations = organization::read_all(files, faults);
    Summary { settings: Some(path), organizations, warnings: findings.warnings }
}

/// A summary of checked files, one line per file and warning.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    pub settings: Option<PathBuf>,
    pub organizations: Vec<(PathBuf, Organization)>,
    /// Settings that work but should be changed.
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
