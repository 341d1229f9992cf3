//! The stored form of the domain's values: postcard after a version byte. The forms are separate from the domain's
//! types, so that a change to those cannot silently change the bytes on disk.

mod environment;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod fuzz;
pub mod later;
mod page;
mod pipeline;
#[cfg(test)]
mod properties;
mod session;
pub mod stored;

use std::sync::Arc;

use serde::Deserialize;

use environment::{
    CountsV1, EnvironmentV4, LastV1, LeftForm, LeftV2, NewEnvironmentsV1, PointerV1, WaiterForm, WaiterV3, WakeV2,
};
pub use environment::{Keeping, StoredEnvironment};
pub use page::Page;
pub use pipeline::RegistryStepV1;
pub use session::{
    decode_approval, decode_approvals, decode_deployment, decode_deployment_head, decode_log_parts, encode_approval,
    encode_approvals, encode_deployment, encode_log_parts,
};

use crate::stored::Stored;
use domain::{
    Blueprint, Boot, Configuration, Deadline, Environment, EnvironmentKey, Identifier, Labels, Now, PipelineKey,
    Session, SkippedRun, SkippedTokens, Waiter,
};
use store::record::{self, RecordError, encode};

/// One run of the server.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub id: u64,
    /// The boot in which the ticks of this run, and of other runs in the same boot, are valid.
    pub boot: Boot,
    pub started: Now,
}

pub fn write_environment(environment: &Environment, keeping: Keeping, run: Run, out: &mut Vec<u8>) {
    let skipped = &environment.skipped_tokens;
    let form = EnvironmentV4 {
        configuration: environment.configuration.to_form(),
        counts: CountsV1 {
            configuration_revision: environment.configuration_revision,
            revision: environment.revision,
            fencing_token: environment.fencing_token,
            first_session: environment.first_session,
            kept_from: keeping.from,
            pointers: keeping.pointers,
            run: run.id,
        },
        lock: environment.lock.to_form(),
        leaving: environment.leaving.to_form(),
        last: LastV1 {
            reset: environment.reset.to_form(),
            disabled_reason: environment.disabled_reason.to_form(),
            last_used: environment.last_used.to_form(),
            last_deployment: environment.last_deployment.to_form(),
            last_reset: environment.last_reset.to_form(),
            deployed: keeping.deployed,
            boot: Some(run.boot.0),
        },
        skipped: skipped.runs().iter().map(|run| (run.after, run.count)).collect(),
    };
    record::write(&form, out);
}

#[cfg(test)]
fn encode_environment(environment: &Environment, keeping: Keeping, run: Run) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_environment(environment, keeping, run, &mut bytes);
    bytes
}

/// The environment's record with this many more tokens skipped. Everything else stays as it was written.
pub fn skip_tokens(bytes: &[u8], count: u64) -> Result<Vec<u8>, RecordError> {
    let mut form: EnvironmentV4<'_> = record::decode(bytes)?;
    let runs = form.skipped.into_iter().map(|(after, count)| SkippedRun { after, count }).collect();
    let overlap = || record::invalid::<EnvironmentV4<'_>>("are skipped tokens that overlap");
    let mut skipped = SkippedTokens::new(runs).ok_or_else(overlap)?;
    if let Some(uncounted) = skipped.skip(form.counts.fencing_token, count) {
        form.counts.first_session = form.counts.first_session.max(uncounted + 1);
    }
    form.skipped = skipped.runs().iter().map(|run| (run.after, run.count)).collect();
    Ok(encode(&form))
}

pub fn encode_new_environments(skipped: u64) -> Vec<u8> {
    encode(&NewEnvironmentsV1 { skipped })
}

/// Number of tokens that a new environment skips.
pub fn decode_new_environments(bytes: &[u8]) -> Result<u64, RecordError> {
    Ok(record::decode::<NewEnvironmentsV1>(bytes)?.skipped)
}

pub fn decode_environment(bytes: &[u8], run: Run) -> Result<StoredEnvironment, RecordError> {
    let form: EnvironmentV4<'_> = record::decode(bytes)?;
    let (written_by, boot) = (form.counts.run, form.last.boot);
    let mut stored = StoredEnvironment::try_from(form).map_err(record::invalid::<EnvironmentV4<'_>>)?;
    if written_by != run.id {
        Arc::make_mut(&mut stored.environment).rearm(run.started, boot == Some(run.boot.0));
    }
    Ok(stored)
}

/// Whether the record is of an existing environment, without decoding the rest of it.
pub fn is_of_existing(bytes: &[u8]) -> Result<bool, RecordError> {
    #[derive(Deserialize)]
    enum Presence {
        Absent,
        Present,
    }
    // The first part of the record says whether there is a configuration.
    Ok(matches!(record::decode_beginning::<EnvironmentV4<'_>, _>(bytes)?, Presence::Present))
}

/// Whether the environment's record says that it is disabled for this reason.
pub fn is_disabled_because(bytes: &[u8], reason: &str) -> Result<bool, RecordError> {
    let EnvironmentV4 { configuration, last, .. } = record::decode(bytes)?;
    Ok(configuration.is_some_and(|configuration| configuration.form.disabled) && last.disabled_reason == Some(reason))
}

/// The steps of a deployment's stages, from its pipeline at the start of the deployment.
pub fn encode_blueprint(blueprint: &Blueprint) -> Vec<u8> {
    encode(&blueprint.to_form())
}

pub fn decode_blueprint(bytes: &[u8]) -> Result<Blueprint, RecordError> {
    stored::read(bytes)
}

pub fn encode_configuration(configuration: &Configuration) -> Vec<u8> {
    encode(&configuration.to_form())
}

/// Appends the record of a session to a record of several sessions.
fn write_session(session: &Session, out: &mut Vec<u8>) {
    record::write(&session.to_form(), out);
}

fn decode_session(bytes: &[u8]) -> Result<Session, RecordError> {
    stored::read(bytes)
}

/// The record of a waiter; a waiter of a pool has labels.
pub fn encode_waiter(waiter: &Waiter, labels: Option<&Labels>) -> Vec<u8> {
    encode(&WaiterForm {
        ticket: waiter.ticket.0,
        kept: waiter.kept_by.to_form(),
        session: waiter.session.to_form(),
        labels: labels.map(Stored::to_form),
        via: waiter.via.to_form(),
        known: waiter.known,
    })
}

pub fn decode_waiter(bytes: &[u8]) -> Result<(Waiter, Option<Labels>), RecordError> {
    record::read::<WaiterV3<'_>, _>(bytes)
}

/// The record that locates a session that was once queued.
pub fn encode_pointer(key: &EnvironmentKey, fencing_token: u64) -> Vec<u8> {
    encode(&PointerV1 { key: key.to_form(), fencing_token })
}

pub fn decode_pointer(bytes: &[u8]) -> Result<(EnvironmentKey, u64), RecordError> {
    let PointerV1 { key, fencing_token } = record::decode(bytes)?;
    Ok((EnvironmentKey::from_form(key).map_err(record::invalid::<PointerV1<'_>>)?, fencing_token))
}

/// The record of a session that ended in a queue, with that queue.
pub fn encode_left(pipeline: &PipelineKey, name: Option<&Identifier>, session: &Session) -> Vec<u8> {
    encode(&LeftForm { pipeline: pipeline.to_form(), name: name.map(Identifier::as_str), session: session.to_form() })
}

pub fn decode_left(bytes: &[u8]) -> Result<(PipelineKey, Option<Identifier>, Session), RecordError> {
    record::read::<LeftV2<'_>, _>(bytes)
}

/// The record of when to load an environment after a start, because a deadline may have passed by then. `now` is the
/// time of writing.
pub fn encode_wake(until: Deadline, now: Now, run: Run) -> Vec<u8> {
    let within_millis = until.due.0.saturating_sub(now.tick.0);
    encode(&WakeV2 { at: until.at.as_millis(), within_millis, due: Some((until.due.0, run.boot.0)) })
}

/// Milliseconds from the start of this run. Loading too early is harmless.
pub fn decode_wake(bytes: &[u8], run: Run) -> Result<i64, RecordError> {
    let WakeV2 { at: _, within_millis, due } = record::decode(bytes)?;
    let left = match due {
        Some((due, boot)) if boot == run.boot.0 => due.saturating_sub(run.started.tick.0),
        _ => within_millis,
    };
    Ok(left.min(within_millis).max(0))
}
