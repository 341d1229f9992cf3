//! An event of an organization: as it occurs, as it is recorded in the batch of the change, as it is stored in the
//! journal, and as it is read. The stored fields that filters use come first, so that a search need not read the rest.

use std::fmt;
use std::str::FromStr;

use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};

use domain::{
    Datum, DeploymentId, Details, EnvironmentKey, EventType, EventValue, Id, IdSeed, IdText, Identifier, Initiator,
    Malformed, Origin, SessionId, Ticket, Timestamp, UserId,
};
use records::stored::{DatumV1, PersonV1, Stored, ViaV1, stored};
use store::journal::Hash;
use store::record::{self, Record, RecordError};
use store::{Batch, StoreError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEvent {
    pub id: EventId,
    /// The hash that chains the event to the previous one.
    pub hash: Hash,
    pub event_type: EventType,
    pub at: Timestamp,
    /// The initiator; `None` for the system.
    pub by: Option<Initiator>,
    pub pipeline: Option<Identifier>,
    pub environment: Option<Identifier>,
    pub session: Option<SessionId>,
    pub deployment: Option<DeploymentId>,
    /// The recorded data: the names of members, each with its value.
    pub data: Vec<(Box<str>, EventValue)>,
}

/// The id of an event: its number in the organization and the first bytes of its hash, so that an id of another
/// organization, or from before a loss of data, does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    pub number: u64,
    pub check: [u8; 4],
}

impl EventId {
    pub const PATTERN: &str = "^evt_[0-9a-f]{24}$";
    /// Used in the API's description.
    pub const EXAMPLE: &str = "evt_000000000000002a9d2c5a1b";

    pub fn new(number: u64, hash: &Hash) -> Self {
        let [a, b, c, d, ..] = *hash;
        Self { number, check: [a, b, c, d] }
    }
}

impl Id for EventId {
    fn text(&self) -> IdText {
        let mut seed = [0; 12];
        seed[..8].copy_from_slice(&self.number.to_be_bytes());
        seed[8..].copy_from_slice(&self.check);
        IdText::new("evt_", &IdSeed(seed))
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl FromStr for EventId {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let seed =
            text.strip_prefix("evt_").and_then(IdSeed::parse_hex).ok_or(Malformed("must be an event id (evt_…)"))?;
        let [a, b, c, d, e, f, g, h, check @ ..] = seed.0;
        Ok(Self { number: u64::from_be_bytes([a, b, c, d, e, f, g, h]), check })
    }
}

/// An event to record. It exists if and only if its batch becomes durable.
#[derive(Debug, Clone, Copy)]
pub struct NewEvent<'a> {
    pub at: Timestamp,
    /// The initiator; `None` for the system.
    pub by: Option<&'a Initiator>,
    pub pipeline: Option<&'a Identifier>,
    pub environment: Option<&'a Identifier>,
    pub session: Option<SessionId>,
    pub deployment: Option<DeploymentId>,
    pub data: &'a dyn Details,
}

/// The initiator and the time of a change.
#[derive(Debug, Clone, Copy)]
pub struct Cause<'a> {
    /// `None` for the system.
    pub by: Option<&'a Initiator>,
    pub at: Timestamp,
}

impl<'a> Cause<'a> {
    pub fn by(initiator: &'a Initiator, at: Timestamp) -> Self {
        Self { by: Some(initiator), at }
    }

    pub fn system(at: Timestamp) -> Self {
        Self { by: None, at }
    }
}

impl<'a> NewEvent<'a> {
    /// An event of the organization itself, not of one of its pipelines.
    pub fn new(data: &'a dyn Details, Cause { by, at }: Cause<'a>) -> Self {
        Self { at, by, pipeline: None, environment: None, session: None, deployment: None, data }
    }

    pub fn in_pipeline(self, pipeline: &'a Identifier) -> Self {
        Self { pipeline: Some(pipeline), ..self }
    }

    pub fn in_environment(self, EnvironmentKey { pipeline, name }: &'a EnvironmentKey) -> Self {
        Self { environment: Some(name), ..self.in_pipeline(&pipeline.pipeline) }
    }
}

pub fn unreadable(what: &str) -> StoreError {
    StoreError::Read(format!("{what} of a journal is malformed; run `lockkeeper audit verify` for details"))
}

/// Adds the event to the organization's journal.
pub fn record(batch: &mut Batch, organization: &Identifier, event: &NewEvent<'_>) {
    batch.append_with(organization.as_str(), |out| write(event, out));
}

// Also used in the records of deliveries.
stored! { struct EventIdV1 of EventId { number: u64, check: [u8; 4] } }

#[derive(Serialize, Deserialize)]
struct EventV1<'a, Entries> {
    #[serde(borrow)]
    beginning: BeginningV1<'a>,
    #[serde(borrow)]
    via: Option<ViaV1<'a>>,
    /// Names with values.
    data: Entries,
}

impl<'a, Entries> Record<'a> for EventV1<'a, Entries> {
    const KIND: &'static str = "event";

    fn usual_bytes(&self) -> usize {
        256
    }
}

/// The form of a decoded event.
type ReadV1<'a> = EventV1<'a, Vec<(&'a str, DatumV1<'a>)>>;

/// Data serialized as a list without allocating one, since every claim writes events.
struct DataV1<'a>(&'a dyn Details);

impl Serialize for DataV1<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut count = 0;
        self.0.each(&mut |_, _| count += 1);
        let mut entries = serializer.serialize_seq(Some(count))?;
        let mut result = Ok(());
        self.0.each(&mut |name, datum| {
            if result.is_ok() {
                result = entries.serialize_element(&(name, form_of(datum)));
            }
        });
        result?;
        entries.end()
    }
}

fn form_of(datum: Datum<'_>) -> DatumV1<'_> {
    match datum {
        Datum::Text(text) => DatumV1::Text(text),
        Datum::Number(number) => DatumV1::Number(number),
        Datum::Flag(flag) => DatumV1::Flag(flag),
    }
}

/// The fields that filters use, which can be decoded without the rest.
#[derive(Serialize, Deserialize)]
struct BeginningV1<'a> {
    /// The position in the list of event types, which only grows.
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

pub fn write(happening: &NewEvent<'_>, out: &mut Vec<u8>) {
    let beginning = BeginningV1 {
        event_type: happening.data.event_type().to_form(),
        at: happening.at.to_form(),
        pipeline: happening.pipeline.map(Identifier::as_str),
        environment: happening.environment.map(Identifier::as_str),
        session: happening.session.map(|id| match id.origin {
            Origin::Granted(token) => SessionV1::Granted(id.seed.0, token),
            Origin::Queued(Ticket(ticket)) => SessionV1::Queued(id.seed.0, ticket),
        }),
        deployment: happening.deployment.to_form(),
        person: happening.by.map(|initiator| initiator.person.to_form()),
    };
    let via = happening.by.and_then(|initiator| initiator.via.to_form());
    record::write(&EventV1 { beginning, via, data: DataV1(happening.data) }, out);
}

/// Decodes only the type of an event.
pub fn notice_of(body: &[u8]) -> Option<EventType> {
    EventType::from_form(record::decode_beginning::<ReadV1<'_>, u16>(body).ok()?).ok()
}

/// The fields that filters use, decoded without the rest and without copying.
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
        event_type: EventType::from_form(form.event_type).map_err(record::invalid::<ReadV1<'_>>)?,
        at: Timestamp::from_millis(form.at),
        pipeline: form.pipeline,
        environment: form.environment,
        session: form.session.map(SessionId::from),
        deployment: form.deployment.map(|seed| DeploymentId(IdSeed(seed))),
        person: form.person.map(|person| UserId(IdSeed(person.id))),
    })
}

pub fn decode(number: u64, hash: Hash, body: &[u8]) -> Result<RecordedEvent, RecordError> {
    let form: ReadV1<'_> = record::decode(body)?;
    form.into_event(EventId::new(number, &hash), hash).map_err(record::invalid::<ReadV1<'_>>)
}

impl ReadV1<'_> {
    fn into_event(self, id: EventId, hash: Hash) -> Result<RecordedEvent, Malformed> {
        let (form, via) = (self.beginning, Stored::from_form(self.via)?);
        let data = self.data.into_iter().map(|(name, datum)| Ok((name.into(), Stored::from_form(datum)?)));
        Ok(RecordedEvent {
            id,
            hash,
            event_type: Stored::from_form(form.event_type)?,
            at: Stored::from_form(form.at)?,
            by: Option::from_form(form.person)?.map(|person| Initiator { person, via }),
            pipeline: Stored::from_form(form.pipeline)?,
            environment: Stored::from_form(form.environment)?,
            session: form.session.map(SessionId::from),
            deployment: Stored::from_form(form.deployment)?,
            data: data.collect::<Result<_, Malformed>>()?,
        })
    }
}

impl From<SessionV1> for SessionId {
    fn from(session: SessionV1) -> Self {
        match session {
            SessionV1::Granted(seed, token) => SessionId { seed: IdSeed(seed), origin: Origin::Granted(token) },
            SessionV1::Queued(seed, ticket) => SessionId { seed: IdSeed(seed), origin: Origin::Queued(Ticket(ticket)) },
        }
    }
}
