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

use serde::Deserialize;

pub use deployment::{
    decode_approval, decode_approvals, decode_deployment, decode_deployment_head, encode_approval, encode_approvals,
    encode_deployment,
};
use environment::{ConfigurationV1, EnvironmentV1, KeptV1, LastDeploymentV1, LeftV1, PointerV1, WaiterV1, WakeV1};
pub use environment::{Keeping, StoredEnvironment};
pub use page::Page;
use session::{DeploymentV1, SessionV1};

use crate::domain::{
    Blueprint, Configuration, Environment, EnvironmentKey, Identifier, KeptBy, Labels, Now, PipelineKey, Session,
    Timestamp, Waiter,
};
use crate::pipelines::BlueprintV1;
use crate::store::record::{self, RecordError, encode};
use crate::stored::{EnvironmentKeyV1, ViaV1, labels_form};

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

pub fn decode_environment(bytes: &[u8], run: Run) -> Result<StoredEnvironment, RecordError> {
    let form: EnvironmentV1<'_> = record::decode(bytes)?;
    let written_by = form.run;
    let mut stored = StoredEnvironment::try_from(form).map_err(record::invalid::<EnvironmentV1<'_>>)?;
    if written_by != run.id {
        stored.environment.rearm(run.started);
    }
    Ok(stored)
}

/// Whether an environment's record is of one that exists, without reading the rest of it.
pub fn is_of_existing(bytes: &[u8]) -> Result<bool, RecordError> {
    #[derive(Deserialize)]
    enum Presence {
        Absent,
        Present,
    }
    // postcard begins the record with whether there is a configuration.
    Ok(matches!(record::decode_beginning::<EnvironmentV1<'_>, _>(bytes)?, Presence::Present))
}

/// What a deployment's stages do, as its pipeline was when it started.
pub fn encode_blueprint(blueprint: &Blueprint) -> Vec<u8> {
    encode(&BlueprintV1::from(blueprint))
}

pub fn decode_blueprint(bytes: &[u8]) -> Result<Blueprint, RecordError> {
    record::read::<BlueprintV1<'_>, _>(bytes)
}

pub fn encode_configuration(configuration: &Configuration) -> Vec<u8> {
    encode(&ConfigurationV1::from(configuration))
}

fn encode_session(session: &Session) -> Vec<u8> {
    encode(&SessionV1::from(session))
}

fn decode_session(bytes: &[u8]) -> Result<Session, RecordError> {
    record::read::<SessionV1<'_>, _>(bytes)
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
        labels: labels.map(labels_form),
        via: waiter.via.as_ref().map(ViaV1::from),
    })
}

pub fn decode_waiter(bytes: &[u8]) -> Result<(Waiter, Option<Labels>), RecordError> {
    record::read::<WaiterV1<'_>, _>(bytes)
}

/// Where the record of a session lies that was once queued.
pub fn encode_pointer(key: &EnvironmentKey, fencing_token: u64) -> Vec<u8> {
    encode(&PointerV1 { environment: EnvironmentKeyV1::from(key), fencing_token })
}

pub fn decode_pointer(bytes: &[u8]) -> Result<(EnvironmentKey, u64), RecordError> {
    record::read::<PointerV1<'_>, _>(bytes)
}

/// A session that ended in a queue, and in whose.
pub fn encode_left(pipeline: &PipelineKey, name: Option<&Identifier>, session: &Session) -> Vec<u8> {
    let (pipeline, name) = (pipeline.into(), name.map(Identifier::as_str));
    encode(&LeftV1 { pipeline, name, session: session.into() })
}

pub fn decode_left(bytes: &[u8]) -> Result<(PipelineKey, Option<Identifier>, Session), RecordError> {
    record::read::<LeftV1<'_>, _>(bytes)
}

/// When to load an environment after a start, since a deadline in it may have passed by then; and within how many
/// milliseconds of the start in any case, should the wall clock have been set meanwhile.
pub fn encode_wake(at: Timestamp, within_millis: i64) -> Vec<u8> {
    encode(&WakeV1 { at: at.as_millis(), within_millis })
}

pub fn decode_wake(bytes: &[u8]) -> Result<(Timestamp, i64), RecordError> {
    let WakeV1 { at, within_millis } = record::decode(bytes)?;
    Ok((Timestamp::from_millis(at), within_millis))
}
