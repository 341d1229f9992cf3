//! How one environment is set up. Everything here is within its bounds; whoever makes one has checked.

use std::collections::BTreeMap;

use super::{Description, Identifier, LabelValue, Role, VariableName, VariableValue};

/// More labels than anybody selects by, few enough to match against in passing.
pub const LABELS_MAX: usize = 32;
pub const VARIABLES_MAX: usize = 64;
/// All its texts together: an environment's record stays far below the store's limit for one batch.
pub const CONFIGURATION_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    pub description: Description,
    pub labels: BTreeMap<Identifier, LabelValue>,
    /// Whether a claim that names a commit also deploys it.
    pub deploy_on_claim: bool,
    /// The least role that may take the lock away from its holder.
    pub force_claim_role: Role,
    /// A disabled environment is not handed out; whoever holds it may finish.
    pub disabled: bool,
    /// What the steps of its deployments get to see.
    pub variables: BTreeMap<VariableName, VariableValue>,
}

impl Configuration {
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
            force_claim_role: Role::Developer,
            disabled: false,
            variables: BTreeMap::new(),
        }
    }
}
