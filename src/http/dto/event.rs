//! Events, as the list, the stream and webhooks show them.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::values::{Text, Time};
use crate::domain::{DeploymentId, EventData, EventValue, Identifier, Initiator, SessionId, TokenId, UserId};
use crate::events::{EventId, RecordedEvent};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Event)]
pub struct EventView<'a> {
    /// Sorts in the order of events in the organization.
    #[schema(value_type = String, example = "evt_000000000000002a9d2c5a1b")]
    event_id: Text<EventId>,
    #[schema(value_type = String, example = "session.claimed")]
    r#type: &'static str,
    at: Time,
    actor: ActorView<'a>,
    /// The id of the request that caused it; null if none did.
    request_id: Option<&'a str>,
    pipeline_id: Option<&'a str>,
    env_name: Option<&'a str>,
    #[schema(value_type = Option<String>)]
    session_id: Option<Text<SessionId>>,
    #[schema(value_type = Option<String>)]
    deployment_id: Option<Text<DeploymentId>>,
    /// Further details, by type.
    #[schema(value_type = Object)]
    data: DataView<'a>,
    /// SHA-256 in hex that chains the event to the one before it; `lockkeeper audit verify` checks all of them.
    #[schema(value_type = String)]
    hash: Text<Hex<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Actor)]
pub struct ActorView<'a> {
    /// `user`, or `system` for automatic changes.
    #[schema(value_type = String, example = "user")]
    kind: &'static str,
    #[schema(value_type = Option<String>)]
    user_id: Option<Text<UserId>>,
    /// The name at that time.
    name: Option<&'a str>,
    #[schema(value_type = Option<String>)]
    token_id: Option<Text<TokenId>>,
}

#[derive(Debug)]
struct DataView<'a>(&'a EventData);

#[derive(Debug, Clone)]
struct Hex<'a>(&'a [u8]);

impl<'a> From<&'a RecordedEvent> for EventView<'a> {
    fn from(event: &'a RecordedEvent) -> Self {
        let via = event.by.as_ref().and_then(|initiator| initiator.via.as_ref());
        Self {
            event_id: Text(event.id),
            r#type: event.event_type.as_str(),
            at: Time(event.at),
            actor: ActorView::new(event.by.as_ref()),
            request_id: via.map(|via| &*via.request),
            pipeline_id: event.pipeline.as_ref().map(Identifier::as_str),
            env_name: event.environment.as_ref().map(Identifier::as_str),
            session_id: event.session.map(Text),
            deployment_id: event.deployment.map(Text),
            data: DataView(&event.data),
            hash: Text(Hex(&event.hash)),
        }
    }
}

impl<'a> ActorView<'a> {
    fn new(initiator: Option<&'a Initiator>) -> Self {
        let via = initiator.and_then(|initiator| initiator.via.as_ref());
        Self {
            kind: if initiator.is_some() { "user" } else { "system" },
            user_id: initiator.map(|initiator| Text(initiator.person.id)),
            name: initiator.map(|initiator| &*initiator.person.name),
            token_id: via.map(|via| Text(via.token)),
        }
    }
}

impl Serialize for DataView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.0.len()))?;
        for (name, datum) in &self.0.0 {
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
