//! Environments, and those who wait, as they lie in the store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::session::{DeploymentStatusV1, DeploymentV1, SessionV1};
use crate::domain::{
    CommitId, Configuration, Deployment, DeploymentId, Description, Environment, EnvironmentKey, IdSeed, Identifier,
    KeptBy, Labels, LastDeployment, LastReset, Malformed, PipelineKey, PlaceKey, Queue, RequestRef, Session, Ticket,
    Timestamp, Waiter,
};
use crate::store::record::records;
use crate::stored::{
    EnvironmentKeyV1, PipelineKeyV1, RoleV1, TextsV1, ViaV1, labels, labels_form, variables, variables_form,
};

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

records! {
    EnvironmentV1<'a> = "environment",
    ConfigurationV1<'a> = "environment declaration",
    WaiterV1<'a> = "waiter",
    PointerV1<'a> = "session pointer",
    LeftV1<'a> = "ended queue session",
    WakeV1 = "deadline",
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
    /// Which run of the server wrote it: only in the same one do its ticks mean anything.
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
    pub last_reset: Option<LastResetV1>,
    pub deployed: bool,
}

#[derive(Serialize, Deserialize)]
pub struct ConfigurationV1<'a> {
    pub description: &'a str,
    #[serde(borrow)]
    pub labels: TextsV1<'a>,
    pub deploy_on_claim: bool,
    pub default_ttl_seconds: Option<u32>,
    pub max_ttl_seconds: u32,
    pub max_hold_seconds: Option<u32>,
    pub max_queue_length: u32,
    pub on_release: Option<&'a str>,
    pub force_claim_role: RoleV1,
    pub disabled: bool,
    #[serde(borrow)]
    pub variables: TextsV1<'a>,
}

#[derive(Serialize, Deserialize)]
pub struct WaiterV1<'a> {
    pub ticket: u64,
    #[serde(borrow)]
    pub kept: KeptV1<'a>,
    #[serde(borrow)]
    pub session: SessionV1<'a>,
    #[serde(borrow)]
    pub labels: Option<TextsV1<'a>>,
    #[serde(borrow)]
    pub via: Option<ViaV1<'a>>,
}

#[derive(Serialize, Deserialize)]
pub enum KeptV1<'a> {
    Connection,
    Key {
        #[serde(borrow)]
        record: &'a [u8],
        fingerprint: [u8; 16],
    },
    Asking,
}

#[derive(Serialize, Deserialize)]
pub struct PointerV1<'a> {
    #[serde(borrow)]
    pub environment: EnvironmentKeyV1<'a>,
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

/// When to load the environment after a start, and within how many milliseconds of the start in any case.
#[derive(Serialize, Deserialize)]
pub struct WakeV1 {
    pub at: i64,
    pub within_millis: i64,
}

#[derive(Serialize, Deserialize)]
pub struct LastResetV1 {
    pub id: [u8; 12],
    pub fencing_token: u64,
}

#[derive(Serialize, Deserialize)]
pub struct LastDeploymentV1<'a> {
    pub id: [u8; 12],
    pub commit: &'a str,
    pub status: DeploymentStatusV1,
    pub finished_at: i64,
}

impl<'a> From<&'a Configuration> for ConfigurationV1<'a> {
    fn from(configuration: &'a Configuration) -> Self {
        Self {
            description: configuration.description.as_str(),
            labels: labels_form(&configuration.labels),
            deploy_on_claim: configuration.deploy_on_claim,
            default_ttl_seconds: configuration.default_ttl_seconds,
            max_ttl_seconds: configuration.max_ttl_seconds,
            max_hold_seconds: configuration.max_hold_seconds,
            max_queue_length: configuration.max_queue_length,
            on_release: configuration.on_release.as_ref().map(CommitId::as_str),
            force_claim_role: configuration.force_claim_role.into(),
            disabled: configuration.disabled,
            variables: variables_form(&configuration.variables),
        }
    }
}

impl TryFrom<ConfigurationV1<'_>> for Configuration {
    type Error = Malformed;

    fn try_from(form: ConfigurationV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            description: Description::parse(form.description)?,
            labels: labels(form.labels)?,
            deploy_on_claim: form.deploy_on_claim,
            default_ttl_seconds: form.default_ttl_seconds,
            max_ttl_seconds: form.max_ttl_seconds,
            max_hold_seconds: form.max_hold_seconds,
            max_queue_length: form.max_queue_length,
            on_release: form.on_release.map(CommitId::parse).transpose()?,
            force_claim_role: form.force_claim_role.into(),
            disabled: form.disabled,
            variables: variables(form.variables)?,
        })
    }
}

impl From<LastReset> for LastResetV1 {
    fn from(reset: LastReset) -> Self {
        Self { id: reset.id.0.0, fencing_token: reset.fencing_token }
    }
}

impl From<LastResetV1> for LastReset {
    fn from(form: LastResetV1) -> Self {
        Self { id: DeploymentId(IdSeed(form.id)), fencing_token: form.fencing_token }
    }
}

impl TryFrom<LastDeploymentV1<'_>> for LastDeployment {
    type Error = Malformed;

    fn try_from(form: LastDeploymentV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: DeploymentId(IdSeed(form.id)),
            commit: CommitId::parse(form.commit)?,
            status: form.status.into(),
            finished_at: Timestamp::from_millis(form.finished_at),
        })
    }
}

impl TryFrom<EnvironmentV1<'_>> for StoredEnvironment {
    type Error = Malformed;

    fn try_from(form: EnvironmentV1<'_>) -> Result<Self, Malformed> {
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
        environment.held_back =
            environment.waiting_deployment().is_some() && environment.current_deployment().is_none();
        let keeping = Keeping { from: form.kept_from, pointers: form.pointers, deployed: form.deployed };
        Ok(StoredEnvironment { environment, keeping })
    }
}

impl TryFrom<WaiterV1<'_>> for (Waiter, Option<Labels>) {
    type Error = Malformed;

    fn try_from(form: WaiterV1<'_>) -> Result<Self, Malformed> {
        let kept_by = match form.kept {
            KeptV1::Connection => KeptBy::Connection,
            KeptV1::Key { record, fingerprint } => KeptBy::Key(PlaceKey { record: Arc::from(record), fingerprint }),
            KeptV1::Asking => KeptBy::Polling,
        };
        let waiter = Waiter {
            ticket: Ticket(form.ticket),
            kept_by,
            session: Session::try_from(form.session)?,
            via: form.via.map(RequestRef::from),
        };
        Ok((waiter, form.labels.map(labels).transpose()?))
    }
}

impl TryFrom<PointerV1<'_>> for (EnvironmentKey, u64) {
    type Error = Malformed;

    fn try_from(form: PointerV1<'_>) -> Result<Self, Malformed> {
        Ok((form.environment.try_into()?, form.fencing_token))
    }
}

impl TryFrom<LeftV1<'_>> for (PipelineKey, Option<Identifier>, Session) {
    type Error = Malformed;

    fn try_from(form: LeftV1<'_>) -> Result<Self, Malformed> {
        let name = form.name.map(Identifier::parse).transpose()?;
        Ok((form.pipeline.try_into()?, name, form.session.try_into()?))
    }
}
