//! Events as in the list, the stream and webhooks.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::values::{Text, Time};
use super::written::{DeploymentId, EventId, SessionId, TokenId, UserId, Written};
use super::written::{EventType, Named};
use domain::{EventValue, Identifier, Initiator};
use events::RecordedEvent;

/// A change in the organization. Its `type` says what its `data` has.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Event)]
pub struct EventView<'a> {
    /// Sorts in the order of events in the organization.
    event_id: EventId,
    r#type: EventType,
    /// When it happened.
    at: Time,
    /// Who did it.
    actor: ActorView<'a>,
    /// The id of the request that caused it; null if none did.
    #[schema(example = "0199f3c2-a4b0-7f3e-9d2c-5a1b2c3d4e5f")]
    request_id: Option<&'a str>,
    /// The pipeline that it happened in, or null.
    #[schema(example = "web")]
    pipeline_id: Option<&'a str>,
    /// The environment that it happened in, or null.
    #[schema(example = "review-1")]
    env_name: Option<&'a str>,
    /// The session that it is about, or null.
    session_id: Option<SessionId>,
    /// The deployment that it is about, or null.
    deployment_id: Option<DeploymentId>,
    /// Further details.
    #[schema(value_type = Object)]
    data: DataView<'a>,
    /// SHA-256 in hex that chains the event to the one before it; `lockkeeper audit verify` checks all of them.
    #[schema(value_type = String, example = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    hash: Text<Hex<'a>>,
}

/// Who made a change.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Actor)]
pub struct ActorView<'a> {
    kind: ActorKind,
    /// The member; null for the system.
    user_id: Option<UserId>,
    /// The name at that time.
    #[schema(example = "ana")]
    name: Option<&'a str>,
    /// The token of the request, if there was one.
    token_id: Option<TokenId>,
}

/// `user`, or `system` for automatic changes.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum ActorKind {
    User,
    System,
}

#[derive(Debug)]
struct DataView<'a>(&'a [(Box<str>, EventValue)]);

#[derive(Debug, Clone)]
struct Hex<'a>(&'a [u8]);

impl<'a> From<&'a RecordedEvent> for EventView<'a> {
    fn from(event: &'a RecordedEvent) -> Self {
        let via = event.by.as_ref().and_then(|initiator| initiator.via.as_ref());
        Self {
            event_id: Written(event.id),
            r#type: Named(event.event_type),
            at: Time(event.at),
            actor: ActorView::new(event.by.as_ref()),
            request_id: via.map(|via| &*via.request),
            pipeline_id: event.pipeline.as_ref().map(Identifier::as_str),
            env_name: event.environment.as_ref().map(Identifier::as_str),
            session_id: event.session.map(Written),
            deployment_id: event.deployment.map(Written),
            data: DataView(&event.data),
            hash: Text(Hex(&event.hash)),
        }
    }
}

impl<'a> ActorView<'a> {
    fn new(initiator: Option<&'a Initiator>) -> Self {
        let via = initiator.and_then(|initiator| initiator.via.as_ref());
        Self {
            kind: if initiator.is_some() { ActorKind::User } else { ActorKind::System },
            user_id: initiator.map(|initiator| Written(initiator.person.id)),
            name: initiator.map(|initiator| &*initiator.person.name),
            token_id: via.map(|via| Written(via.token)),
        }
    }
}

impl Serialize for DataView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, datum) in self.0 {
            match datum {
                EventValue::Text(text) => map.serialize_entry(name, &**text)?,
                EventValue::Number(number) => map.serialize_entry(name, number)?,
                EventValue::Flag(flag) => map.serialize_entry(name, flag)?,
            }
        }
        map.end()
    }
}

impl std::fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
