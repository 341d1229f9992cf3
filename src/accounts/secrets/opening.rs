//! The secrets of one pipeline as they were at one moment: which versions, and their values when they are needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sealing::Ring;
use super::secret::SecretError;
use super::stored::Record;
use super::value::SecretValue;
use domain::{Identifier, VariableName};

/// The organization's, then the pipeline's own, which take precedence; still sealed.
pub struct PipelineSecrets {
    pub(super) organization: Identifier,
    pub(super) records: Vec<Record>,
    /// None only if there are no records.
    pub(super) ring: Option<Arc<Ring>>,
}

/// Names secrets with their versions. Two equal ones have the same values, since no version is used twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SecretVersions {
    organization: Identifier,
    versions: Vec<(Option<Identifier>, VariableName, u64)>,
}

impl PipelineSecrets {
    pub fn versions(&self) -> SecretVersions {
        let version = |record: &Record| {
            let secret = &record.secret;
            (secret.pipeline.clone(), secret.name.clone(), secret.version)
        };
        SecretVersions { organization: self.organization.clone(), versions: self.records.iter().map(version).collect() }
    }

    /// What steps get, by name.
    pub fn by_name(&self) -> Result<Vec<(VariableName, SecretValue)>, SecretError> {
        let Some(ring) = &self.ring else { return Ok(Vec::new()) };
        let by_name: BTreeMap<_, _> = self.records.iter().map(|record| (&record.secret.name, record)).collect();
        by_name.into_iter().map(|(name, record)| Ok((name.clone(), open(ring, record)?))).collect()
    }

    /// What is masked: also values of the organization that the pipeline overrides.
    pub fn values(&self) -> Result<Vec<SecretValue>, SecretError> {
        let Some(ring) = &self.ring else { return Ok(Vec::new()) };
        self.records.iter().map(|record| open(ring, record)).collect()
    }
}

pub(super) fn open(ring: &Ring, record: &Record) -> Result<SecretValue, SecretError> {
    let value = ring.open(&record.identity(), &record.sealed);
    value.ok_or_else(|| SecretError::DoesNotOpen { name: record.secret.name.clone() })
}
