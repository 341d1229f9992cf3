//! Closed sets of names as they are written in answers: by the names that their enums have, which are also those of the
//! schema.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::auth::{RevocationReason, SignInMethod};
use crate::domain::{
    ApprovalRule, ApprovalStatus, DeploymentStatus, EventType, Expiry, InputKind, LockStatus, Role, SessionStatus,
    StageStatus, StepStatus,
};
use crate::forms::{Choice, named_choices};
use crate::pipelines::Provider;
use crate::webhooks::DeliveryStatus;
use crate::{analysis, registries};

// Those that requests have too are described with their forms.
named_choices! {
    StageStatus as "StageStatus": "The status of a stage. `queued`: handed to the runner, which has not started it.";
    StepStatus as "StepStatus": "The status of a step.";
    Expiry as "EndReason": "Why a session expired: `ttl` (no activity in time), `max_hold` (held as long as the environment \
        allows), `unasked` (nobody polled it in time), `vanished` (its client had gone).";
    RevocationReason as "RevocationReason": "Why a token was revoked: its member was removed, or a new bootstrap token \
        replaces it.";
    SignInMethod as "SignInMethod": "What a member has signed in with.";
    EventType as "EventType": "What happened.";
    analysis::Category as "RootCauseCategory": "A kind of failure.";
    registries::Status as "StepRegistryStatus": "The status of a step registry. `failed`: the last sync failed, and the steps \
        are those from before it.";
}

macro_rules! written_by_name {
    ($($type:ty),* $(,)?) => {
        $(
            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str(self.name())
                }
            }

            impl PartialSchema for $type {
                fn schema() -> RefOr<Schema> {
                    let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(<$type>::names()));
                    schema.description(Some(<$type>::DESCRIPTION)).into()
                }
            }

            impl ToSchema for $type {
                fn name() -> Cow<'static, str> {
                    Cow::Borrowed(<$type>::SCHEMA)
                }
            }
        )*
    };
}

written_by_name!(
    LockStatus,
    SessionStatus,
    Expiry,
    DeploymentStatus,
    StageStatus,
    StepStatus,
    ApprovalStatus,
    ApprovalRule,
    InputKind,
    Provider,
    Role,
    RevocationReason,
    SignInMethod,
    EventType,
    DeliveryStatus,
    analysis::Category,
    analysis::service::Status,
    analysis::service::EngineName,
    registries::Status,
);
