//! The configuration of an environment. All values are within their limits, which the reader has checked.

use std::collections::BTreeMap;

use super::{CommitId, Description, Identifier, LabelValue, Role, VariableName, VariableValue};

/// More than a selection needs, and few enough to compare quickly.
pub const LABELS_MAX: usize = 32;
pub const VARIABLES_MAX: usize = 64;
/// The limit for all texts of a configuration together. It keeps an environment's record far below the store's limit
/// per batch.
pub const CONFIGURATION_BYTES_MAX: usize = 64 * 1024;

/// A year: anything longer means no limit.
pub const SECONDS_MAX: u32 = 366 * 24 * 60 * 60;
/// Waiters per environment: enough for the largest fleets, and a limit on memory.
pub const QUEUE_LENGTH_MAX: u32 = 100_000;

pub type Labels = BTreeMap<Identifier, LabelValue>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    pub description: Description,
    pub labels: Labels,
    /// Whether a claim that names a commit also deploys it.
    pub deploy_on_claim: bool,
    /// For sessions that request no TTL. None: such sessions do not expire.
    pub default_ttl_seconds: Option<u32>,
    /// The longest TTL that a session may request.
    pub max_ttl_seconds: u32,
    /// How long a session may hold the lock in total.
    pub max_hold_seconds: Option<u32>,
    /// The maximum number of waiters.
    pub max_queue_length: u32,
    /// The commit deployed after a release or an expiry, before the next session gets the lock.
    pub on_release: Option<CommitId>,
    /// The lowest role that may force-claim.
    pub force_claim_role: Role,
    /// A disabled environment cannot be claimed; its holder may finish.
    pub disabled: bool,
    /// Visible to the steps of the environment's deployments.
    pub variables: BTreeMap<VariableName, VariableValue>,
}

impl Configuration {
    pub const MAX_TTL_SECONDS: u32 = 24 * 60 * 60;
    pub const MAX_QUEUE_LENGTH: u32 = 10_000;

    /// Whether the environment has all of these labels.
    pub fn has_labels(&self, wanted: &Labels) -> bool {
        wanted.iter().all(|(key, value)| self.labels.get(key) == Some(value))
    }

    pub fn bytes(&self) -> usize {
        let labels = self.labels.iter().map(|(key, value)| key.as_str().len() + value.as_str().len());
        let variables = self.variables.iter().map(|(name, value)| name.as_str().len() + value.as_str().len());
        self.description.as_str().len() + labels.sum::<usize>() + variables.sum::<usize>()
    }
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            description: Description::default(),
            labels: BTreeMap::new(),
            deploy_on_claim: true,
            default_ttl_seconds: None,
            max_ttl_seconds: Self::MAX_TTL_SECONDS,
            max_hold_seconds: None,
            max_queue_length: Self::MAX_QUEUE_LENGTH,
            on_release: None,
            force_claim_role: Role::Developer,
            disabled: false,
            variables: BTreeMap::new(),
        }
    }
}

/// The precondition of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// The environment exists.
    Existing,
    /// The environment does not exist.
    Absent,
    /// The environment is still at one of these revisions.
    Revisions(Vec<u64>),
}

impl Expected {
    /// `revision` is the current one; `None` if the environment does not exist.
    pub fn holds(&self, revision: Option<u64>) -> bool {
        match self {
            Expected::Existing => revision.is_some(),
            Expected::Absent => revision.is_none(),
            Expected::Revisions(expected) => revision.is_some_and(|revision| expected.contains(&revision)),
        }
    }
}
