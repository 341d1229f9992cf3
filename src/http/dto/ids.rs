//! Ids as they are described in answers.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::domain::{
    AnalysisId, ApprovalId, DeliveryId, DeploymentId, RegistryId, SessionId, TokenId, UserId, WebhookId,
};
use crate::events::EventId;

macro_rules! ids {
    ($($id:ty as $name:literal: $description:literal;)*) => {
        $(
            impl PartialSchema for $id {
                fn schema() -> RefOr<Schema> {
                    let schema = ObjectBuilder::new().schema_type(Type::String).pattern(Some(<$id>::PATTERN));
                    schema.examples([<$id>::EXAMPLE]).description(Some($description)).into()
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
    SessionId as "SessionId": "The id of a session.";
    DeploymentId as "DeploymentId": "The id of a deployment.";
    ApprovalId as "ApprovalId": "The id of an approval.";
    AnalysisId as "AnalysisId": "The id of an analysis.";
    EventId as "EventId": "The id of an event.";
    RegistryId as "StepRegistryId": "The id of a step registry.";
    UserId as "UserId": "The id of a member.";
    TokenId as "TokenId": "The id of a token, which does not reveal its text.";
    WebhookId as "WebhookId": "The id of a webhook.";
    DeliveryId as "DeliveryId": "The id of a delivery.";
}
