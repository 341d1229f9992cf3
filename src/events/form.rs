//! The stored form of an event in its journal. The fields that filters compare come first, so that a search need not read
//! the rest.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use super::event::{EventId, RecordedEvent};
use super::record::NewEvent;
use crate::domain::{
    DeploymentId, EventData, EventType, EventValue, IdSeed, Identifier, Initiator, Malformed, Origin, Person,
    RequestRef, SessionId, Ticket, Timestamp, UserId,
};
use crate::store::journal::Hash;
use crate::store::record::{self, Record, RecordError};
use crate::stored::{PersonV1, ViaV1};

#[derive(Serialize, Deserialize)]
struct EventV1<'a, Entries> {
    #[serde(borrow)]
    beginning: BeginningV1<'a>,
    #[serde(borrow)]
    via: Option<ViaV1<'a>>,
    /// Names, each with its value.
    data: Entries,
}

impl<'a, Entries> Record<'a> for EventV1<'a, Entries> {
    const KIND: &'static str = "event";

    fn usual_bytes(&self) -> usize {
        256
    }
}

/// An event as it is read.
type ReadV1<'a> = EventV1<'a, Vec<(&'a str, DatumV1<'a>)>>;

/// Serialized as a list without allocating one: every claim writes some.
struct DataV1<'a>(&'a EventData);

impl Serialize for DataV1<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.0.iter().map(|(name, datum)| (&**name, DatumV1::from(datum))))
    }
}

/// The fields that filters compare: they can be read without the rest.
#[derive(Serialize, Deserialize)]
struct BeginningV1<'a> {
    /// Its position in the list of event types, which only grows.
    event_type: u16,
    at: i64,
    pipeline: Option<&'a str>,
    environment: Option<&'a str>,
    session: Option<SessionV1>,
    deployment: Option<[u8; 12]>,
    #[serde(borrow)]
    person: Option<PersonV1<'a>>,
}

#[derive(Serialize, Deserialize)]
enum SessionV1 {
    Granted([u8; 12], u64),
    Queued([u8; 12], u64),
}

#[derive(Serialize, Deserialize)]
enum DatumV1<'a> {
    Text(&'a str),
    Number(u64),
    Flag(bool),
}

pub fn encode(happening: &NewEvent<'_>) -> Vec<u8> {
    let beginning = BeginningV1 {
        event_type: happening.event_type as u16,
        at: happening.at.as_millis(),
        pipeline: happening.pipeline.map(Identifier::as_str),
        environment: happening.environment.map(Identifier::as_str),
        session: happening.session.map(|id| match id.origin {
            Origin::Granted(token) => SessionV1::Granted(id.seed.0, token),
            Origin::Queued(Ticket(ticket)) => SessionV1::Queued(id.seed.0, ticket),
        }),
        deployment: happening.deployment.map(|id| id.0.0),
        person: happening.by.map(|agent| PersonV1::from(&agent.person)),
    };
    let via = happening.by.and_then(|agent| agent.via.as_ref()).map(ViaV1::from);
    record::encode(&EventV1 { beginning, via, data: DataV1(happening.data) })
}

/// The type of the event, without reading the rest.
pub fn notice_of(body: &[u8]) -> Option<EventType> {
    event_type_at(record::decode_beginning::<ReadV1<'_>, u16>(body).ok()?).ok()
}

/// Notices are stored as their position in the list of all, which only grows.
fn event_type_at(position: u16) -> Result<EventType, RecordError> {
    let found = EventType::ALL.get(usize::from(position)).copied();
    found.ok_or_else(|| record::invalid::<ReadV1<'_>>("is an event type of a newer version; start that one"))
}

/// The fields that filters compare, read without the rest and without copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventHead<'a> {
    pub event_type: EventType,
    pub at: Timestamp,
    pub pipeline: Option<&'a str>,
    pub environment: Option<&'a str>,
    pub session: Option<SessionId>,
    pub deployment: Option<DeploymentId>,
    pub person: Option<UserId>,
}

pub fn decode_head(body: &[u8]) -> Result<EventHead<'_>, RecordError> {
    let form: BeginningV1<'_> = record::decode_beginning::<ReadV1<'_>, _>(body)?;
    Ok(EventHead {
        event_type: event_type_at(form.event_type)?,
        at: Timestamp::from_millis(form.at),
        pipeline: form.pipeline,
        environment: form.environment,
        session: form.session.map(SessionId::from),
        deployment: form.deployment.map(|seed| DeploymentId(IdSeed(seed))),
        person: form.person.map(|person| UserId(IdSeed(person.id))),
    })
}

pub fn decode(number: u64, hash: Hash, body: &[u8]) -> Result<RecordedEvent, RecordError> {
    let EventV1 { beginning: form, via, data }: ReadV1<'_> = record::decode(body)?;
    let identifier = |text: Option<&str>| {
        text.map(Identifier::parse).transpose().map_err(|malformed: Malformed| record::invalid::<ReadV1<'_>>(malformed))
    };
    Ok(RecordedEvent {
        id: EventId::new(number, &hash),
        hash,
        event_type: event_type_at(form.event_type)?,
        at: Timestamp::from_millis(form.at),
        by: form.person.map(|person| Initiator { person: Person::from(person), via: via.map(RequestRef::from) }),
        pipeline: identifier(form.pipeline)?,
        environment: identifier(form.environment)?,
        session: form.session.map(SessionId::from),
        deployment: form.deployment.map(|seed| DeploymentId(IdSeed(seed))),
        data: EventData(data.into_iter().map(|(name, datum)| (Cow::Owned(name.to_owned()), datum.into())).collect()),
    })
}

impl From<SessionV1> for SessionId {
    fn from(session: SessionV1) -> Self {
        match session {
            SessionV1::Granted(seed, token) => SessionId { seed: IdSeed(seed), origin: Origin::Granted(token) },
            SessionV1::Queued(seed, ticket) => SessionId { seed: IdSeed(seed), origin: Origin::Queued(Ticket(ticket)) },
        }
    }
}

impl<'a> From<&'a EventValue> for DatumV1<'a> {
    fn from(datum: &'a EventValue) -> Self {
        match datum {
            EventValue::Text(text) => DatumV1::Text(text),
            EventValue::Number(number) => DatumV1::Number(*number),
            EventValue::Flag(flag) => DatumV1::Flag(*flag),
        }
    }
}

impl From<DatumV1<'_>> for EventValue {
    fn from(datum: DatumV1<'_>) -> Self {
        match datum {
            DatumV1::Text(text) => EventValue::Text(Arc::from(text)),
            DatumV1::Number(number) => EventValue::Number(number),
            DatumV1::Flag(flag) => EventValue::Flag(flag),
        }
    }
}
