//! Ids and enums in responses, with the names of the domain, which are also those of the schema.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::forms::{Choice, named_choices};
use accounts::auth;
use delivery::registries;
use domain::Id;
use http1::json::Plain;
use locks::pipelines;

/// An id written as its text.
#[derive(Debug, Clone)]
pub struct Written<T>(pub T);

impl<T: Id> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Plain::new(self.0.text().as_bytes()).serialize(serializer)
    }
}

/// Ids with named schemas.
macro_rules! ids {
    ($($room:ident::$id:ident as $name:literal: $description:literal;)*) => {
        $(
            pub type $id = Written<$room::$id>;

            impl PartialSchema for $id {
                fn schema() -> RefOr<Schema> {
                    let schema = ObjectBuilder::new().schema_type(Type::String).pattern(Some(<$room::$id>::PATTERN));
                    schema.examples([<$room::$id>::EXAMPLE]).description(Some($description)).into()
                }
            }

            impl ToSchema for $id {
                fn name() -> Cow<'static, str> {
                    Cow::Borrowed($name)
                }
            }
        )*
    };
}

ids! {
    domain::SessionId as "SessionId": "The id of a session.";
    domain::DeploymentId as "DeploymentId": "The id of a deployment.";
    domain::ApprovalId as "ApprovalId": "The id of an approval.";
    domain::AnalysisId as "AnalysisId": "The id of an analysis.";
    events::EventId as "EventId": "The id of an event.";
    domain::RegistryId as "StepRegistryId": "The id of a step registry.";
    domain::UserId as "UserId": "The id of a member.";
    domain::TokenId as "TokenId": "The id of a token, which does not reveal its text.";
    domain::WebhookId as "WebhookId": "The id of a webhook.";
    domain::DeliveryId as "DeliveryId": "The id of a delivery.";
}

// Choices that also occur in requests are described with the forms.
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

/// A choice written as its name.
#[derive(Debug, Clone, Copy)]
pub struct Named<T>(pub T);

impl<T: Choice> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Plain::new(self.0.name().as_bytes()).serialize(serializer)
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
