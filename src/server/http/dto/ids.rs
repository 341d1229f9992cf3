//! Ids as they are written in answers, by the names that they have within.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::http::json;
use domain::Id;

/// An id, written as its text.
#[derive(Debug, Clone)]
pub struct Written<T>(pub T);

impl<T: Id> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json::plain(serializer, self.0.text().as_bytes())
    }
}

/// An id with a schema of its own.
pub trait DescribedId {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const PATTERN: &'static str;
    const EXAMPLE: &'static str;
}

impl<T: DescribedId> PartialSchema for Written<T> {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new().schema_type(Type::String).pattern(Some(T::PATTERN));
        schema.examples([T::EXAMPLE]).description(Some(T::DESCRIPTION)).into()
    }
}

impl<T: DescribedId> ToSchema for Written<T> {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed(T::NAME)
    }
}

macro_rules! ids {
    ($($room:ident::$id:ident as $name:literal: $description:literal;)*) => {
        $(
            pub type $id = Written<$room::$id>;

            impl DescribedId for $room::$id {
                const NAME: &'static str = $name;
                const DESCRIPTION: &'static str = $description;
                const PATTERN: &'static str = <$room::$id>::PATTERN;
                const EXAMPLE: &'static str = <$room::$id>::EXAMPLE;
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
