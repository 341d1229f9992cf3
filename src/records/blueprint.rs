//! The stored form of a blueprint: in the record of its pipeline, and as a copy per deployment.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::stored::{stored, stored_enum};
use domain::{Action, ApprovalRule, Blueprint, Identifier, Stage, Step, StepSource, VariableName, VariableValue};
use store::record::records;

records!(BlueprintV1<'a> = "blueprint");

stored! {
    struct BlueprintV1 of Blueprint {
        stages: Vec<Stage>,
        variables: BTreeMap<VariableName, VariableValue>,
        self_approval: bool,
    }
}

stored! {
    struct StageV1 of Stage {
        name: Identifier,
        approval: ApprovalRule,
        timeout_seconds: u32,
        idempotent: bool,
        steps: Vec<Step>,
    }
}

stored! {
    struct StepV1 of Step {
        name: Identifier,
        action: Action,
        inputs: BTreeMap<VariableName, VariableValue>,
        source: Option<Arc<StepSource>>,
    }
}

stored_enum!(ApprovalRuleV1 of ApprovalRule { Never, Always });
