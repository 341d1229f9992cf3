//! How one environment is set up. Everything here is within its bounds; whoever makes one has checked.

use std::collections::BTreeMap;

use super::{CommitId, Description, Identifier, LabelValue, Role, VariableName, VariableValue};

/// More labels than anybody selects by, few enough to match against in passing.
pub const LABELS_MAX: usize = 32;
pub const VARIABLES_MAX: usize = 64;
/// All its texts together: an environment's record stays far below the store's limit for one batch.
pub const CONFIGURATION_BYTES_MAX: usize = 64 * 1024;

/// A year: whoever means longer means no limit at all.
pub const SECONDS_MAX: u32 = 366 * 24 * 60 * 60;
/// As many as may wait for one environment; enough for the largest fleets, and a bound on memory.
pub const QUEUE_LENGTH_MAX: u32 = 100_000;

pub type Labels = BTreeMap<Identifier, LabelValue>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    pub description: Description,
    pub labels: Labels,
    /// Whether a claim that names a commit also deploys it.
    pub deploy_on_claim: bool,
    /// The TTL of a session that names none; without it, such a session does not expire.
    pub default_ttl_seconds: Option<u32>,
    /// The longest TTL a session may have.
    pub max_ttl_seconds: u32,
    /// How long a session may hold the lock in all.
    pub max_hold_seconds: Option<u32>,
    /// How many may wait for it.
    pub max_queue_length: u32,
    /// What is deployed after a release or an expiry, before anybody else gets the lock.
    pub on_release: Option<CommitId>,
    /// The least role that may take the lock away from its holder.
    pub force_claim_role: Role,
    /// A disabled environment is not handed out; whoever holds it may finish.
    pub disabled: bool,
    /// What the steps of its deployments get to see.
    pub variables: BTreeMap<VariableName, VariableValue>,
}

impl Configuration {
    /// Whether it has all of these labels.
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
            description: Description::parse("").expect("an empty text is within the bounds"),
            labels: BTreeMap::new(),
            deploy_on_claim: true,
            default_ttl_seconds: None,
            max_ttl_seconds: 24 * 60 * 60,
            max_hold_seconds: None,
            max_queue_length: 10_000,
            on_release: None,
            force_claim_role: Role::Developer,
            disabled: false,
            variables: BTreeMap::new(),
        }
    }
}
