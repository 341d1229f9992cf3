//! The stored forms of environments and waiters.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::session::{DeploymentV1, SessionV1};
use crate::stored::{EnvironmentKeyV1, PipelineKeyV1, Stored, ViaV1, stored, stored_enum};
use domain::{
    CommitId, Configuration, DeploymentId, DeploymentStatus, Description, Environment, Identifier, KeptBy, Labels,
    LastDeployment, LastReset, Malformed, PipelineKey, PlaceKey, Queue, Role, Session, SkippedRun, SkippedTokens,
    Ticket, Timestamp, VariableName, VariableValue, Waiter,
};
use store::record::{self, Record, RecordError, records};

/// An environment as stored, and the actor's other data. Its queue is stored separately.
pub struct StoredEnvironment {
    /// Not shared yet, so `Arc::make_mut` copies nothing; its actor and readers will share it.
    pub environment: Arc<Environment>,
    pub keeping: Keeping,
}

/// The part of an environment's history that the store keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// Sessions before this number are forgotten: the store has them only if they share a page with kept ones.
    pub from: u64,
    /// Number of kept sessions whose ids are found through a pointer.
    pub pointers: u64,
    /// Whether any kept session may have had deployments, which also have stored data.
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
    LeftV1<'a> = "ended queue session",
    NewEnvironmentsV1 = "new environments",
}

/// Adds skipped tokens; without any, version 2 is written.
#[derive(Serialize, Deserialize)]
pub struct EnvironmentV3<'a> {
    #[serde(borrow)]
    pub environment: EnvironmentV2<'a>,
    /// Pairs of the token before the gap and the number of skipped tokens.
    pub skipped: Vec<(u64, u64)>,
}

impl<'a> Record<'a> for EnvironmentV3<'a> {
    const KIND: &'static str = EnvironmentV2::KIND;
    const VERSION: u8 = 3;

    fn read_older(version: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        let environment = match version {
            EnvironmentV2::VERSION => record::decode_form::<Self, _>(form)?,
            _ => EnvironmentV2::read_older(version, form)?,
        };
        Ok(Self { environment, skipped: Vec::new() })
    }
}

/// Adds the boot of the machine in which its ticks are valid.
#[derive(Serialize, Deserialize)]
pub struct EnvironmentV2<'a> {
    #[serde(borrow)]
    pub environment: EnvironmentV1<'a>,
    /// None in version 1, whose ticks were valid in one process only.
    pub boot: Option<u64>,
}

impl<'a> Record<'a> for EnvironmentV2<'a> {
    const KIND: &'static str = "environment";
    const VERSION: u8 = 2;

    fn read_older(_: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        Ok(Self { environment: record::decode_form::<Self, _>(form)?, boot: None })
    }
}

#[derive(Serialize, Deserialize)]
pub struct EnvironmentV1<'a> {
    #[serde(borrow)]
    pub configuration: Option<ConfigurationV1<'a>>,
    pub configuration_revision: u64,
    pub revision: u64,
    pub fencing_token: u64,
    pub first_session: u64,
    pub kept_from: u64,
    pub pointers: u64,
    /// The server run that wrote it; in another run its deadlines are adapted.
    pub run: u64,
    #[serde(borrow)]
    pub lock: Option<SessionV1<'a>>,
    #[serde(borrow)]
    pub leaving: Option<SessionV1<'a>>,
    #[serde(borrow)]
    pub reset: Option<DeploymentV1<'a>>,
    pub disabled_reason: Option<&'a str>,
    pub last_used: Option<i64>,
    #[serde(borrow)]
    pub last_deployment: Option<LastDeploymentV1<'a>>,
    #[serde(borrow)]
    pub last_reset: Option<LastResetV1<'a>>,
    pub deployed: bool,
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

#[derive(Serialize, Deserialize)]
pub struct WaiterV2<'a> {
    #[serde(borrow)]
    pub waiter: WaiterV1<'a>,
    pub known: bool,
}

#[derive(Serialize, Deserialize)]
pub struct WaiterV1<'a> {
    pub ticket: u64,
    #[serde(borrow)]
    pub kept: KeptV1<'a>,
    #[serde(borrow)]
    pub session: SessionV1<'a>,
    #[serde(borrow)]
    pub labels: Option<BTreeMap<&'a str, &'a str>>,
    #[serde(borrow)]
    pub via: Option<ViaV1<'a>>,
}

impl<'a> Record<'a> for WaiterV2<'a> {
    const KIND: &'static str = "waiter";
    const VERSION: u8 = 2;

    /// Version 1 does not record whether its client knows the session, so it may.
    fn read_older(_: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        Ok(Self { waiter: record::decode_form::<Self, _>(form)?, known: true })
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

#[derive(Serialize, Deserialize)]
pub struct LeftV1<'a> {
    #[serde(borrow)]
    pub pipeline: PipelineKeyV1<'a>,
    pub name: Option<&'a str>,
    #[serde(borrow)]
    pub session: SessionV1<'a>,
}

/// Number of fencing tokens that environments created from now on skip.
#[derive(Serialize, Deserialize)]
pub struct NewEnvironmentsV1 {
    pub skipped: u64,
}

/// When to load the environment after a start, and the maximum delay in milliseconds after the start.
#[derive(Serialize, Deserialize)]
pub struct WakeV2 {
    /// By the wall clock; used if there is no tick of this boot.
    pub at: i64,
    pub within_millis: i64,
    /// A tick and its boot.
    pub due: Option<(i64, u64)>,
}

#[derive(Deserialize)]
struct WakeV1 {
    at: i64,
    within_millis: i64,
}

impl<'a> Record<'a> for WakeV2 {
    const KIND: &'static str = "deadline";
    const VERSION: u8 = 2;

    fn read_older(_: u8, form: &'a [u8]) -> Result<Self, RecordError> {
        let WakeV1 { at, within_millis } = record::decode_form::<Self, _>(form)?;
        Ok(Self { at, within_millis, due: None })
    }
}

impl TryFrom<EnvironmentV3<'_>> for StoredEnvironment {
    type Error = Malformed;

    fn try_from(form: EnvironmentV3<'_>) -> Result<Self, Malformed> {
        let EnvironmentV3 { environment: EnvironmentV2 { environment: form, boot: _ }, skipped } = form;
        let runs = skipped.into_iter().map(|(after, count)| SkippedRun { after, count }).collect();
        let mut environment = Environment {
            configuration: Stored::from_form(form.configuration)?,
            configuration_revision: form.configuration_revision,
            revision: form.revision,
            fencing_token: form.fencing_token,
            skipped_tokens: SkippedTokens::new(runs).ok_or(Malformed("are skipped tokens that overlap"))?,
            first_session: form.first_session,
            lock: Stored::from_form(form.lock)?,
            leaving: Stored::from_form(form.leaving)?,
            reset: Stored::from_form(form.reset)?,
            last_reset: Stored::from_form(form.last_reset)?,
            held_back: false,
            disabled_reason: Stored::from_form(form.disabled_reason)?,
            last_used: Stored::from_form(form.last_used)?,
            queue: Queue::new(),
            last_deployment: Stored::from_form(form.last_deployment)?,
        };
        environment.held_back =
            environment.waiting_deployment().is_some() && environment.current_deployment().is_none();
        let keeping = Keeping { from: form.kept_from, pointers: form.pointers, deployed: form.deployed };
        Ok(StoredEnvironment { environment: Arc::new(environment), keeping })
    }
}

impl TryFrom<WaiterV2<'_>> for (Waiter, Option<Labels>) {
    type Error = Malformed;

    fn try_from(WaiterV2 { waiter: form, known }: WaiterV2<'_>) -> Result<Self, Malformed> {
        let waiter = Waiter {
            known,
            ticket: Ticket(form.ticket),
            kept_by: Stored::from_form(form.kept)?,
            session: Stored::from_form(form.session)?,
            via: Stored::from_form(form.via)?,
        };
        Ok((waiter, Stored::from_form(form.labels)?))
    }
}

impl TryFrom<LeftV1<'_>> for (PipelineKey, Option<Identifier>, Session) {
    type Error = Malformed;

    fn try_from(form: LeftV1<'_>) -> Result<Self, Malformed> {
        Ok((Stored::from_form(form.pipeline)?, Stored::from_form(form.name)?, Stored::from_form(form.session)?))
    }
}
