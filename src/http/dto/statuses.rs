//! Statuses as they are written in answers: by the names that their enums have, which are also those of the schema.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::domain::{ApprovalStatus, DeploymentStatus, LockStatus, SessionStatus, StageStatus, StepStatus};
use crate::{analysis, registries};

macro_rules! written_by_name {
    ($($type:ty as $name:literal: $description:literal;)*) => {
        $(
            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str(self.as_str())
                }
            }

            impl PartialSchema for $type {
                fn schema() -> RefOr<Schema> {
                    let names = <$type>::ALL.iter().map(|status| status.as_str());
                    let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names));
                    schema.description(Some($description)).into()
                }
            }

            impl ToSchema for $type {
                fn name() -> Cow<'static, str> {
                    Cow::Borrowed($name)
                }
            }
        )*
    };
}

written_by_name! {
    LockStatus as "LockStatus": "The status of an environment.";
    SessionStatus as "SessionStatus": "The status of a session.";
    DeploymentStatus as "DeploymentStatus": "The status of a deployment.";
    StageStatus as "StageStatus": "The status of a stage. `queued`: handed to the runner, which has not started it.";
    StepStatus as "StepStatus": "The status of a step.";
    ApprovalStatus as "ApprovalStatus": "`cancelled`: the deployment ended before somebody decided.";
    analysis::service::Status as "AnalysisStatus": "The status of an analysis.";
    analysis::service::EngineName as "AnalysisEngine": "What made the analysis.";
    registries::Status as "StepRegistryStatus": "`failed`: the last sync failed, and the steps are those from before it.";
}
