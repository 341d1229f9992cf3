//! How an event lies in its journal: postcard behind a version byte. Where it was and when comes first, so that a reader
//! who looks for something need not read the rest.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use super::event::{EventId, Occurred};
use super::record::Happening;
use crate::domain::{
    Agent, Data, Datum, DeploymentId, IdSeed, Identifier, Malformed, Notice, Origin, Person, SessionId, Ticket,
    Timestamp, TokenId, UserId, Via,
};
use crate::store::journal::Hash;

const VERSION: u8 = 1;

#[derive(Serialize, Deserialize)]
struct EventV1<'a, Entries> {
    #[serde(borrow)]
    beginning: BeginningV1<'a>,
    via: Option<([u8; 12], &'a str)>,
    /// Names, each with what it stands for.
    data: Entries,
}

/// Written as a list without making one: every claim writes some.
struct DataV1<'a>(&'a Data);

impl Serialize for DataV1<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.0.iter().map(|(name, datum)| (&**name, DatumV1::from(datum))))
    }
}

/// What filters ask about: it can be read without the rest.
#[derive(Serialize, Deserialize)]
struct BeginningV1<'a> {
    /// Its place in the list of notices, which only grows.
    notice: u16,
    at: i64,
    pipeline: Option<&'a str>,
    environment: Option<&'a str>,
    session: Option<SessionV1>,
    deployment: Option<[u8; 12]>,
    #[serde(borrow)]
    person: Option<([u8; 12], &'a str)>,
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

#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("an event is of a version or a type that this server does not know; start the version that wrote it")]
    Unknown,
    #[error("an event does not have the form of its version: {0}")]
    Form(#[from] postcard::Error),
    #[error("an event holds a text that {0}")]
    Text(#[from] Malformed),
}

pub fn encode(happening: &Happening<'_>) -> Vec<u8> {
    /// Room for an ordinary event, so that it is written without growing.
    const USUAL_BYTES: usize = 256;
    let via = happening.by.and_then(|agent| agent.via.as_ref());
    let beginning = BeginningV1 {
        notice: happening.notice as u16,
        at: happening.at.as_millis(),
        pipeline: happening.pipeline.map(Identifier::as_str),
        environment: happening.environment.map(Identifier::as_str),
        session: happening.session.map(|id| match id.origin {
            Origin::Granted(token) => SessionV1::Granted(id.seed.0, token),
            Origin::Queued(Ticket(ticket)) => SessionV1::Queued(id.seed.0, ticket),
        }),
        deployment: happening.deployment.map(|id| id.0.0),
        person: happening.by.map(|agent| (agent.person.id.0.0, &*agent.person.name)),
    };
    let via = via.map(|via| (via.token.0.0, &*via.request));
    let form = EventV1 { beginning, via, data: DataV1(happening.data) };
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    bytes.push(VERSION);
    postcard::to_extend(&form, bytes).expect("the form has no maps of unknown length, and memory does not refuse")
}

/// What kind of event it is, without reading the rest.
pub fn notice_of(body: &[u8]) -> Option<Notice> {
    let Some((&VERSION, form)) = body.split_first() else { return None };
    let (place, _) = postcard::take_from_bytes::<u16>(form).ok()?;
    Notice::ALL.get(usize::from(place)).copied()
}

/// What filters ask about, read without the rest and without a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glance<'a> {
    pub notice: Notice,
    pub at: Timestamp,
    pub pipeline: Option<&'a str>,
    pub environment: Option<&'a str>,
    pub session: Option<SessionId>,
    pub deployment: Option<DeploymentId>,
    pub person: Option<UserId>,
}

pub fn glance(body: &[u8]) -> Result<Glance<'_>, Unreadable> {
    let Some((&VERSION, form)) = body.split_first() else { return Err(Unreadable::Unknown) };
    let (form, _) = postcard::take_from_bytes::<BeginningV1<'_>>(form)?;
    Ok(Glance {
        notice: Notice::ALL.get(usize::from(form.notice)).copied().ok_or(Unreadable::Unknown)?,
        at: Timestamp::from_millis(form.at),
        pipeline: form.pipeline,
        environment: form.environment,
        session: form.session.map(SessionId::from),
        deployment: form.deployment.map(|seed| DeploymentId(IdSeed(seed))),
        person: form.person.map(|(id, _)| UserId(IdSeed(id))),
    })
}

pub fn decode(number: u64, hash: Hash, body: &[u8]) -> Result<Occurred, Unreadable> {
    let Some((&VERSION, form)) = body.split_first() else { return Err(Unreadable::Unknown) };
    let EventV1::<Vec<(&str, DatumV1<'_>)>> { beginning: form, via, data } = postcard::from_bytes(form)?;
    let notice = Notice::ALL.get(usize::from(form.notice)).copied().ok_or(Unreadable::Unknown)?;
    let via = via.map(|(token, request)| Via { token: TokenId(IdSeed(token)), request: Arc::from(request) });
    Ok(Occurred {
        id: EventId::new(number, &hash),
        hash,
        notice,
        at: Timestamp::from_millis(form.at),
        by: form
            .person
            .map(|(id, name)| Agent { person: Person { id: UserId(IdSeed(id)), name: Arc::from(name) }, via }),
        pipeline: form.pipeline.map(Identifier::parse).transpose()?,
        environment: form.environment.map(Identifier::parse).transpose()?,
        session: form.session.map(SessionId::from),
        deployment: form.deployment.map(|seed| DeploymentId(IdSeed(seed))),
        data: Data(data.into_iter().map(|(name, datum)| (Cow::Owned(name.to_owned()), datum.into())).collect()),
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

impl<'a> From<&'a Datum> for DatumV1<'a> {
    fn from(datum: &'a Datum) -> Self {
        match datum {
            Datum::Text(text) => DatumV1::Text(text),
            Datum::Number(number) => DatumV1::Number(*number),
            Datum::Flag(flag) => DatumV1::Flag(*flag),
        }
    }
}

impl From<DatumV1<'_>> for Datum {
    fn from(datum: DatumV1<'_>) -> Self {
        match datum {
            DatumV1::Text(text) => Datum::Text(Arc::from(text)),
            DatumV1::Number(number) => Datum::Number(number),
            DatumV1::Flag(flag) => Datum::Flag(flag),
        }
    }
}
