//! The stored form of what the domain knows: postcard behind a version byte, apart from the domain's types, so that
//! a change of those cannot silently change what lies on the disk.

mod deployment;
mod environment;
#[cfg(test)]
mod fixtures;
mod page;
#[cfg(test)]
mod properties;
mod session;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use deployment::{
    decode_approval, decode_approvals, decode_deployment, decode_deployment_head, encode_approval, encode_approvals,
    encode_deployment,
};
use environment::{
    ConfigurationV1, EnvironmentKeyV1, EnvironmentV1, KeptV1, LastDeploymentV1, LeftV1, PointerV1, WaiterV1,
};
pub use page::Page;
use session::{DeploymentV1, SessionV1};

use crate::domain::{
    Blueprint, Configuration, Deployment, Environment, EnvironmentKey, IdSeed, Identifier, KeptBy, LabelValue, Labels,
    LastDeployment, Malformed, Now, PipelineKey, PlaceKey, Queue, Session, Ticket, Timestamp, TokenId, Via, Waiter,
};
use crate::pipelines::BlueprintV1;

const VERSION: u8 = 1;

/// An enum of the domain and its stored twin: postcard stores the place in the list, so the order here never changes.
macro_rules! stored_enum {
    ($stored:ident, $domain:ident { $($variant:ident),* }) => {
        #[derive(Serialize, Deserialize)]
        pub enum $stored { $($variant),* }

        impl From<$domain> for $stored {
            fn from(value: $domain) -> Self {
                match value { $($domain::$variant => $stored::$variant),* }
            }
        }

        impl From<$stored> for $domain {
            fn from(value: $stored) -> Self {
                match value { $($stored::$variant => $domain::$variant),* }
            }
        }
    };
}
use stored_enum;

#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("a record is of version {0}, which this server does not know; start the version that wrote it")]
    Version(u8),
    #[error("a record is empty")]
    Empty,
    #[error("a record does not have the form of its version: {0}")]
    Form(#[from] postcard::Error),
    #[error("a record holds a text that {0}")]
    Text(#[from] Malformed),
}

/// An environment as it lies in the store, and what the actor has to know besides. Its queue lies elsewhere.
pub struct StoredEnvironment {
    pub environment: Environment,
    pub keeping: Keeping,
}

/// What the store has of an environment's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// Sessions before this number are forgotten: the store has them only as far as they share a page with others.
    pub from: u64,
    /// How many of those that it has have an id that is found by a pointer.
    pub pointers: u64,
    /// Whether any of those may have had deployments, of which something is kept too.
    pub deployed: bool,
}

impl Default for Keeping {
    fn default() -> Self {
        Self { from: 1, pointers: 0, deployed: false }
    }
}

/// One run of the server. Its steady clock means nothing to another.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub id: u64,
    pub started: Now,
}

pub fn encode_environment(environment: &Environment, keeping: Keeping, run: Run) -> Vec<u8> {
    let form = EnvironmentV1 {
        configuration: environment.configuration.as_deref().map(ConfigurationV1::from),
        configuration_revision: environment.configuration_revision,
        revision: environment.revision,
        fencing_token: environment.fencing_token,
        first_session: environment.first_session,
        kept_from: keeping.from,
        pointers: keeping.pointers,
        run: run.id,
        lock: environment.lock.as_ref().map(SessionV1::from),
        leaving: environment.leaving.as_ref().map(SessionV1::from),
        reset: environment.reset.as_ref().map(DeploymentV1::from),
        disabled_reason: environment.disabled_reason.as_deref(),
        last_used: environment.last_used.map(Timestamp::as_millis),
        last_deployment: environment.last_deployment.as_ref().map(|last| LastDeploymentV1 {
            id: last.id.0.0,
            commit: last.commit.as_str(),
            status: last.status.into(),
            finished_at: last.finished_at.as_millis(),
        }),
        last_reset: environment.last_reset.map(Into::into),
        deployed: keeping.deployed,
    };
    encode(&form)
}

pub fn decode_environment(bytes: &[u8], run: Run) -> Result<StoredEnvironment, Unreadable> {
    let form: EnvironmentV1<'_> = decode(bytes)?;
    let mut environment = Environment {
        configuration: form.configuration.map(Configuration::try_from).transpose()?.map(Arc::new),
        configuration_revision: form.configuration_revision,
        revision: form.revision,
        fencing_token: form.fencing_token,
        first_session: form.first_session,
        lock: form.lock.map(Session::try_from).transpose()?,
        leaving: form.leaving.map(Session::try_from).transpose()?,
        reset: form.reset.map(Deployment::try_from).transpose()?,
        last_reset: form.last_reset.map(Into::into),
        held_back: false,
        disabled_reason: form.disabled_reason.map(Arc::from),
        last_used: form.last_used.map(Timestamp::from_millis),
        queue: Queue::new(),
        last_deployment: form.last_deployment.map(LastDeployment::try_from).transpose()?,
    };
    environment.held_back = environment.has_waiting_deployment() && environment.current_deployment().is_none();
    if form.run != run.id {
        environment.rearm(run.started);
    }
    let keeping = Keeping { from: form.kept_from, pointers: form.pointers, deployed: form.deployed };
    Ok(StoredEnvironment { environment, keeping })
}

/// Whether an environment's record is of one that exists, without reading the rest of it.
pub fn is_of_existing(bytes: &[u8]) -> Result<bool, Unreadable> {
    #[derive(Deserialize)]
    enum Presence {
        Absent,
        Present,
    }
    // postcard begins the record with whether there is a configuration.
    Ok(matches!(decode_beginning(bytes)?, Presence::Present))
}

/// What a deployment's stages do, as its pipeline was when it started.
pub fn encode_blueprint(blueprint: &Blueprint) -> Vec<u8> {
    encode(&BlueprintV1::from(blueprint))
}

pub fn decode_blueprint(bytes: &[u8]) -> Result<Blueprint, Unreadable> {
    Ok(Blueprint::try_from(decode::<BlueprintV1<'_>>(bytes)?)?)
}

pub fn encode_configuration(configuration: &Configuration) -> Vec<u8> {
    encode(&ConfigurationV1::from(configuration))
}

fn encode_session(session: &Session) -> Vec<u8> {
    encode(&SessionV1::from(session))
}

fn decode_session(bytes: &[u8]) -> Result<Session, Unreadable> {
    Ok(Session::try_from(decode::<SessionV1<'_>>(bytes)?)?)
}

/// One who waits, and for those who wait for any environment: which.
pub fn encode_waiter(waiter: &Waiter, labels: Option<&Labels>) -> Vec<u8> {
    encode(&WaiterV1 {
        ticket: waiter.ticket.0,
        kept: match &waiter.kept_by {
            KeptBy::Connection => KeptV1::Connection,
            KeptBy::Key(key) => KeptV1::Key { record: &key.record, fingerprint: key.fingerprint },
            KeptBy::Polling => KeptV1::Asking,
        },
        session: SessionV1::from(&waiter.session),
        labels: labels.map(|labels| labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()),
        via: waiter.via.as_ref().map(|via| (via.token.0.0, &*via.request)),
    })
}

pub fn decode_waiter(bytes: &[u8]) -> Result<(Waiter, Option<Labels>), Unreadable> {
    let form: WaiterV1<'_> = decode(bytes)?;
    let kept_by = match form.kept {
        KeptV1::Connection => KeptBy::Connection,
        KeptV1::Key { record, fingerprint } => KeptBy::Key(PlaceKey { record: Arc::from(record), fingerprint }),
        KeptV1::Asking => KeptBy::Polling,
    };
    let label = |(key, value)| Ok((Identifier::parse(key)?, LabelValue::parse(value)?));
    let labels =
        form.labels.map(|labels| labels.into_iter().map(label).collect::<Result<_, Malformed>>()).transpose()?;
    let via = form.via.map(|(token, request)| Via { token: TokenId(IdSeed(token)), request: Arc::from(request) });
    Ok((Waiter { ticket: Ticket(form.ticket), kept_by, session: Session::try_from(form.session)?, via }, labels))
}

/// Where the record of a session lies that was once queued.
pub fn encode_pointer(key: &EnvironmentKey, fencing_token: u64) -> Vec<u8> {
    encode(&PointerV1 { environment: EnvironmentKeyV1::from(key), fencing_token })
}

pub fn decode_pointer(bytes: &[u8]) -> Result<(EnvironmentKey, u64), Unreadable> {
    let form: PointerV1<'_> = decode(bytes)?;
    Ok((form.environment.try_into()?, form.fencing_token))
}

/// A session that ended in a queue, and in whose.
pub fn encode_left(pipeline: &PipelineKey, name: Option<&Identifier>, session: &Session) -> Vec<u8> {
    encode(&LeftV1 {
        organization: pipeline.organization.as_str(),
        pipeline: pipeline.pipeline.as_str(),
        name: name.map(Identifier::as_str),
        session: SessionV1::from(session),
    })
}

pub fn decode_left(bytes: &[u8]) -> Result<(PipelineKey, Option<Identifier>, Session), Unreadable> {
    let form: LeftV1<'_> = decode(bytes)?;
    let pipeline = PipelineKey {
        organization: Identifier::parse(form.organization)?,
        pipeline: Identifier::parse(form.pipeline)?,
    };
    Ok((pipeline, form.name.map(Identifier::parse).transpose()?, Session::try_from(form.session)?))
}

/// When to look at an environment after a start, since what it holds may have run out by then; and within how many
/// milliseconds of the start in any case, if the wall clock has been set meanwhile.
pub fn encode_wake(at: Timestamp, within_millis: i64) -> Vec<u8> {
    encode(&(at.as_millis(), within_millis))
}

pub fn decode_wake(bytes: &[u8]) -> Result<(Timestamp, i64), Unreadable> {
    let (at, within_millis) = decode(bytes)?;
    Ok((Timestamp::from_millis(at), within_millis))
}

fn encode<T: Serialize>(form: &T) -> Vec<u8> {
    /// Room for an ordinary record, so that it is written without growing.
    const USUAL_BYTES: usize = 384;
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    bytes.push(VERSION);
    postcard::to_extend(form, bytes).expect("our forms have no maps of unknown length, and memory does not refuse")
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Unreadable> {
    Ok(postcard::from_bytes(form_of(bytes)?)?)
}

/// What a record begins with, without reading the rest of it.
fn decode_beginning<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Unreadable> {
    Ok(postcard::take_from_bytes(form_of(bytes)?)?.0)
}

fn form_of(bytes: &[u8]) -> Result<&[u8], Unreadable> {
    match bytes.split_first() {
        Some((&VERSION, form)) => Ok(form),
        Some((&version, _)) => Err(Unreadable::Version(version)),
        None => Err(Unreadable::Empty),
    }
}
