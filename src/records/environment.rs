//! The stored forms of environments and waiters.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::later::Growing;
use super::session::{DeploymentV1, SessionV1};
use crate::stored::{EnvironmentKeyV1, PipelineKeyV1, Stored, ViaV1, stored, stored_enum};
use domain::{
    CommitId, Configuration, DeploymentId, DeploymentStatus, Description, Environment, Identifier, KeptBy, Labels,
    LastDeployment, LastReset, Malformed, PipelineKey, PlaceKey, Queue, Role, Session, SkippedRun, SkippedTokens,
    Ticket, Timestamp, VariableName, VariableValue, Waiter,
};
use store::record::{self, Record, RecordError, records};

/// An environment as stored, with the actor's other data. The queue is stored separately.
pub struct StoredEnvironment {
    /// Not shared yet, so `Arc::make_mut` copies nothing; the actor and readers will share it.
    pub environment: Arc<Environment>,
    pub keeping: Keeping,
}

/// The part of an environment's history that the store keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// Sessions before this number are forgotten; the store only has those that share a page with kept ones.
    pub from: u64,
    /// Number of kept sessions whose ids are found through a pointer.
    pub pointers: u64,
    /// Whether a kept session may have had deployments, which have stored data too.
    pub deployed: bool,
}

impl Default for Keeping {
    fn default() -> Self {
        Self { from: 1, pointers: 0, deployed: false }
    }
}

records! {
    ConfigurationV1<'a> = "environment declaration",
    PointerV1<'a> = "session pointer",
    NewEnvironmentsV1 = "new environments",
    WakeV2 = "deadline" version 2,
}

/// In version 4 the configuration and the sessions can have later fields. Versions 2 and 3, without and with `skipped`,
/// are unchanged since November 2026.
#[derive(Serialize, Deserialize)]
pub struct EnvironmentV4<'a> {
    #[serde(borrow)]
    pub configuration: Option<Growing<ConfigurationV1<'a>>>,
    pub counts: CountsV1,
    #[serde(borrow)]
    pub lock: Option<Growing<SessionV1<'a>>>,
    #[serde(borrow)]
    pub leaving: Option<Growing<SessionV1<'a>>>,
    #[serde(borrow)]
    pub last: LastV1<'a>,
    /// Pairs: the token after which tokens are skipped, and their number.
    pub skipped: Vec<(u64, u64)>,
}

#[derive(Deserialize)]
struct EnvironmentV2<'a> {
    #[serde(borrow)]
    configuration: Option<ConfigurationV1<'a>>,
    counts: CountsV1,
    #[serde(borrow)]
    lock: Option<SessionV1<'a>>,
    #[serde(borrow)]
    leaving: Option<SessionV1<'a>>,
    #[serde(borrow)]
    last: LastV1<'a>,
}

#[derive(Serialize, Deserialize)]
pub struct CountsV1 {
    pub configuration_revision: u64,
    pub revision: u64,
    pub fencing_token: u64,
    pub first_session: u64,
    pub kept_from: u64,
    pub pointers: u64,
    /// The server run that wrote the record; another run adapts the deadlines.
    pub run: u64,
}

#[derive(Serialize, Deserialize)]
pub struct LastV1<'a> {
    #[serde(borrow)]
    pub reset: Option<DeploymentV1<'a>>,
    pub disabled_reason: Option<&'a str>,
    pub last_used: Option<i64>,
    #[serde(borrow)]
    pub last_deployment: Option<LastDeploymentV1<'a>>,
    #[serde(borrow)]
    pub last_reset: Option<LastResetV1<'a>>,
    pub deployed: bool,
    /// The boot of the machine in which the record's ticks are valid.
    pub boot: Option<u64>,
}

impl<'a> Record<'a> for EnvironmentV4<'a> {
    const KIND: &'static str = "environment";
    const VERSION: u8 = 4;
    const OLDEST: u8 = 2;

    fn read_older(version: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        let (EnvironmentV2 { configuration, counts, lock, leaving, last }, skipped) = match version {
            2 => (record::decode_form::<Self, _>(form)?, Vec::new()),
            _ => record::decode_form::<Self, _>(form)?,
        };
        let (lock, leaving) = (lock.map(Growing::from), leaving.map(Growing::from));
        Ok(Self { configuration: configuration.map(Growing::from), counts, lock, leaving, last, skipped })
    }
}

stored! {
    struct ConfigurationV1 of Configuration {
        description: Description,
        labels: Labels,
        deploy_on_claim: bool,
        default_ttl_seconds: Option<u32>,
        max_ttl_seconds: u32,
        max_hold_seconds: Option<u32>,
        max_queue_length: u32,
        on_release: Option<CommitId>,
        force_claim_role: Role,
        disabled: bool,
        variables: BTreeMap<VariableName, VariableValue>,
    }
    later {}
}

stored! { struct LastResetV1 of LastReset { id: DeploymentId, fencing_token: u64 } }
stored! {
    struct LastDeploymentV1 of LastDeployment {
        id: DeploymentId,
        commit: CommitId,
        status: DeploymentStatus,
        finished_at: Timestamp,
    }
}

/// From version 3 on, the session may have later fields ([`Growing`]).
#[derive(Serialize, Deserialize)]
pub struct WaiterForm<'a, S> {
    pub ticket: u64,
    #[serde(borrow)]
    pub kept: KeptV1<'a>,
    pub session: S,
    #[serde(borrow)]
    pub labels: Option<BTreeMap<&'a str, &'a str>>,
    #[serde(borrow)]
    pub via: Option<ViaV1<'a>>,
    pub known: bool,
}

pub type WaiterV3<'a> = WaiterForm<'a, Growing<SessionV1<'a>>>;

impl<'a> Record<'a> for WaiterV3<'a> {
    const KIND: &'static str = "waiter";
    const VERSION: u8 = 3;
    const OLDEST: u8 = 2;

    fn read_older(_: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        let form: WaiterForm<'_, SessionV1<'_>> = record::decode_form::<Self, _>(form)?;
        let WaiterForm { ticket, kept, session, labels, via, known } = form;
        Ok(Self { ticket, kept, session: session.into(), labels, via, known })
    }
}

stored_enum!(KeptV1<'a> of KeptBy { Connection, Key(key: PlaceKey), Polling });
stored! { struct PlaceKeyV1 of PlaceKey { record: Arc<[u8]>, fingerprint: [u8; 16] } }

/// An environment and a fencing token.
#[derive(Serialize, Deserialize)]
pub struct PointerV1<'a> {
    #[serde(borrow)]
    pub key: EnvironmentKeyV1<'a>,
    pub fencing_token: u64,
}

/// In version 2 the session can have later fields.
#[derive(Serialize, Deserialize)]
pub struct LeftForm<'a, S> {
    #[serde(borrow)]
    pub pipeline: PipelineKeyV1<'a>,
    pub name: Option<&'a str>,
    pub session: S,
}

pub type LeftV2<'a> = LeftForm<'a, Growing<SessionV1<'a>>>;

impl<'a> Record<'a> for LeftV2<'a> {
    const KIND: &'static str = "ended queue session";
    const VERSION: u8 = 2;

    fn read_older(_: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        let LeftForm { pipeline, name, session } = record::decode_form::<Self, LeftForm<'_, SessionV1<'_>>>(form)?;
        Ok(Self { pipeline, name, session: session.into() })
    }
}

/// Number of fencing tokens that environments created from now on skip.
#[derive(Serialize, Deserialize)]
pub struct NewEnvironmentsV1 {
    pub skipped: u64,
}

/// When to load the environment after a start, with the maximum delay in milliseconds after the start.
#[derive(Serialize, Deserialize)]
pub struct WakeV2 {
    /// On the wall clock; only for people who read the record.
    pub at: i64,
    pub within_millis: i64,
    /// A tick and its boot; always present.
    pub due: Option<(i64, u64)>,
}

impl TryFrom<EnvironmentV4<'_>> for StoredEnvironment {
    type Error = Malformed;

    fn try_from(form: EnvironmentV4<'_>) -> Result<Self, Malformed> {
        let EnvironmentV4 { configuration, counts, lock, leaving, last, skipped } = form;
        let runs = skipped.into_iter().map(|(after, count)| SkippedRun { after, count }).collect();
        let mut environment = Environment {
            configuration: Stored::from_form(configuration)?,
            configuration_revision: counts.configuration_revision,
            revision: counts.revision,
            fencing_token: counts.fencing_token,
            skipped_tokens: SkippedTokens::new(runs).ok_or(Malformed("are skipped tokens that overlap"))?,
            first_session: counts.first_session,
            lock: Stored::from_form(lock)?,
            leaving: Stored::from_form(leaving)?,
            reset: Stored::from_form(last.reset)?,
            last_reset: Stored::from_form(last.last_reset)?,
            held_back: false,
            disabled_reason: Stored::from_form(last.disabled_reason)?,
            last_used: Stored::from_form(last.last_used)?,
            queue: Queue::new(),
            last_deployment: Stored::from_form(last.last_deployment)?,
        };
        environment.held_back =
            environment.waiting_deployment().is_some() && environment.current_deployment().is_none();
        let keeping = Keeping { from: counts.kept_from, pointers: counts.pointers, deployed: last.deployed };
        Ok(StoredEnvironment { environment: Arc::new(environment), keeping })
    }
}

impl TryFrom<WaiterV3<'_>> for (Waiter, Option<Labels>) {
    type Error = Malformed;

    fn try_from(form: WaiterV3<'_>) -> Result<Self, Malformed> {
        let waiter = Waiter {
            known: form.known,
            ticket: Ticket(form.ticket),
            kept_by: Stored::from_form(form.kept)?,
            session: Stored::from_form(form.session)?,
            via: Stored::from_form(form.via)?,
        };
        Ok((waiter, Stored::from_form(form.labels)?))
    }
}

impl TryFrom<LeftV2<'_>> for (PipelineKey, Option<Identifier>, Session) {
    type Error = Malformed;

    fn try_from(form: LeftV2<'_>) -> Result<Self, Malformed> {
        Ok((Stored::from_form(form.pipeline)?, Stored::from_form(form.name)?, Stored::from_form(form.session)?))
    }
}
