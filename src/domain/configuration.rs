//! How one environment is set up. Everything here is within its bounds; whoever makes one has checked.

use std::collections::BTreeMap;

use super::{Description, Identifier, LabelValue, Role, VariableName, VariableValue};

/// More labels than anybody selects by, few enough to match against in passing.
pub const LABELS_MAX: usize = 32;
/// Keeps an environment's record well under the store's limit for one batch.
pub const VARIABLES_MAX: usize = 64;

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
