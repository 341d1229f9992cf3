//! Closed sets of names as they are written in answers: by the names that their enums have, which are also those of the
//! schema.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::forms::{Choice, named_choices};
use accounts::auth;
use delivery::registries;
use locks::pipelines;

// Those that requests have too are described with their forms.
named_choices! {
    domain::StageStatus as "StageStatus": "The status of a stage. `queued`: handed to the runner, which has not started it.";
    domain::StepStatus as "StepStatus": "The status of a step.";
    domain::Expiry as "EndReason": "Why a session expired: `ttl` (no activity in time), `max_hold` (held as long as the environment \
        allows), `unasked` (nobody polled it in time), `vanished` (its client had gone).";
    auth::RevocationReason as "RevocationReason": "Why a token was revoked: its member was removed, a new bootstrap token \
        replaces it, or what it was made from has ended (a token, all sign-ins of a member, a provider, or a rule for jobs).";
    auth::SignInMethod as "SignInMethod": "What a member has signed in with.";
    domain::EventType as "EventType": "What happened.";
    analysis::Category as "RootCauseCategory": "A kind of failure.";
    registries::Status as "StepRegistryStatus": "The status of a step registry. `failed`: the last sync failed, and the steps \
        are those from before it.";
}

/// One of a closed set, written as its name.
#[derive(Debug, Clone, Copy)]
pub struct Named<T>(pub T);

impl<T: Choice> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<T: Choice> PartialSchema for Named<T> {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(T::names()));
        schema.description(Some(T::DESCRIPTION)).into()
    }
}

impl<T: Choice> ToSchema for Named<T> {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed(T::SCHEMA)
    }
}

pub type AnalysisStatus = Named<analysis::service::Status>;
pub type ApprovalRule = Named<domain::ApprovalRule>;
pub type ApprovalStatus = Named<domain::ApprovalStatus>;
pub type Category = Named<analysis::Category>;
pub type DeliveryStatus = Named<webhooks::DeliveryStatus>;
pub type DeploymentStatus = Named<domain::DeploymentStatus>;
pub type EngineName = Named<analysis::service::EngineName>;
pub type EventType = Named<domain::EventType>;
pub type Expiry = Named<domain::Expiry>;
pub type InputKind = Named<domain::InputKind>;
pub type LockStatus = Named<domain::LockStatus>;
pub type Provider = Named<pipelines::Provider>;
pub type RegistryStatus = Named<registries::Status>;
pub type RevocationReason = Named<auth::RevocationReason>;
pub type Role = Named<domain::Role>;
pub type SessionStatus = Named<domain::SessionStatus>;
pub type SignInMethod = Named<auth::SignInMethod>;
pub type StageStatus = Named<domain::StageStatus>;
pub type StepStatus = Named<domain::StepStatus>;
