//! Events as in the list, the stream and webhooks.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::values::{Text, Time};
use super::written::{DeploymentId, EventId, EventType, Named, SessionId, TokenId, UserId, Written};
use domain::{EventValue, Hex, Identifier, Initiator};
use events::RecordedEvent;

view! {
    /// A change in the organization. `type` determines the fields of `data`.
    pub struct EventView<'a> as Event of (event: &'a RecordedEvent)
    let via = event.by.as_ref().and_then(|initiator| initiator.via.as_ref());
    {
        /// The event's id. Ids sort in the order of the organization's events.
        event_id: EventId = Written(event.id),
        r#type: EventType = Named(event.event_type),
        /// When the change happened.
        at: Time = Time(event.at),
        /// Who made the change.
        actor: ActorView<'a> = ActorView::new(event.by.as_ref()),
        /// The id of the request that made the change; null if there was none.
        #[schema(example = "0199f3c2-a4b0-7f3e-9d2c-5a1b2c3d4e5f")]
        request_id: Option<&'a str> = via.map(|via| &*via.request),
        /// The pipeline of the change, or null.
        #[schema(example = "web")]
        pipeline_id: Option<&'a str> = event.pipeline.as_ref().map(Identifier::as_str),
        /// The environment of the change, or null.
        #[schema(example = "review-1")]
        env_name: Option<&'a str> = event.environment.as_ref().map(Identifier::as_str),
        /// The session that the event is about, or null.
        session_id: Option<SessionId> = event.session.map(Written),
        /// The deployment that the event is about, or null.
        deployment_id: Option<DeploymentId> = event.deployment.map(Written),
        /// Further details.
        #[schema(value_type = Object)]
        data: DataView<'a> = DataView(&event.data),
        /// SHA-256 in hex that chains the event to the previous one; `lockkeeper audit verify` checks the whole chain.
        #[schema(value_type = String, example = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
        hash: Text<Hex<'a>> = Text(Hex(&event.hash)),
    }
}

view! {
    /// Who made a change.
    pub struct ActorView<'a> as Actor of (initiator: Option<&'a Initiator>)
    let via = initiator.and_then(|initiator| initiator.via.as_ref());
    {
        kind: ActorKind = if initiator.is_some() { ActorKind::User } else { ActorKind::System },
        /// The member; null for the system.
        user_id: Option<UserId> = initiator.map(|initiator| Written(initiator.person.id)),
        /// The member's name at that time.
        #[schema(example = "ana")]
        name: Option<&'a str> = initiator.map(|initiator| &*initiator.person.name),
        /// The token of the request, if there was one.
        token_id: Option<TokenId> = via.map(|via| Written(via.token)),
    }
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
