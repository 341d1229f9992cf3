//! Environments, and those who wait, as they lie in the store.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::session::{DeploymentStatusV1, DeploymentV1, SessionV1};
use super::stored_enum;
use crate::domain::{
    CommitId, Configuration, DeploymentId, Description, EnvironmentKey, IdSeed, Identifier, LabelValue, LastDeployment,
    LastReset, Malformed, PipelineKey, Role, Timestamp, VariableName, VariableValue,
};

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
    pub labels: BTreeMap<&'a str, &'a str>,
    pub deploy_on_claim: bool,
    pub default_ttl_seconds: Option<u32>,
    pub max_ttl_seconds: u32,
    pub max_hold_seconds: Option<u32>,
    pub max_queue_length: u32,
    pub on_release: Option<&'a str>,
    pub force_claim_role: RoleV1,
    pub disabled: bool,
    #[serde(borrow)]
    pub variables: BTreeMap<&'a str, &'a str>,
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
    /// The token and the request.
    pub via: Option<([u8; 12], &'a str)>,
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
pub struct EnvironmentKeyV1<'a> {
    pub organization: &'a str,
    pub pipeline: &'a str,
    pub name: &'a str,
}

#[derive(Serialize, Deserialize)]
pub struct LeftV1<'a> {
    pub organization: &'a str,
    pub pipeline: &'a str,
    pub name: Option<&'a str>,
    #[serde(borrow)]
    pub session: SessionV1<'a>,
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
            labels: configuration.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            deploy_on_claim: configuration.deploy_on_claim,
            default_ttl_seconds: configuration.default_ttl_seconds,
            max_ttl_seconds: configuration.max_ttl_seconds,
            max_hold_seconds: configuration.max_hold_seconds,
            max_queue_length: configuration.max_queue_length,
            on_release: configuration.on_release.as_ref().map(CommitId::as_str),
            force_claim_role: configuration.force_claim_role.into(),
            disabled: configuration.disabled,
            variables: configuration.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        }
    }
}

impl TryFrom<ConfigurationV1<'_>> for Configuration {
    type Error = Malformed;

    fn try_from(form: ConfigurationV1<'_>) -> Result<Self, Malformed> {
        let label = |(key, value)| Ok((Identifier::parse(key)?, LabelValue::parse(value)?));
        let variable = |(name, value)| Ok((VariableName::parse(name)?, VariableValue::parse(value)?));
        Ok(Self {
            description: Description::parse(form.description)?,
            labels: form.labels.into_iter().map(label).collect::<Result<_, Malformed>>()?,
            deploy_on_claim: form.deploy_on_claim,
            default_ttl_seconds: form.default_ttl_seconds,
            max_ttl_seconds: form.max_ttl_seconds,
            max_hold_seconds: form.max_hold_seconds,
            max_queue_length: form.max_queue_length,
            on_release: form.on_release.map(CommitId::parse).transpose()?,
            force_claim_role: form.force_claim_role.into(),
            disabled: form.disabled,
            variables: form.variables.into_iter().map(variable).collect::<Result<_, Malformed>>()?,
        })
    }
}

impl<'a> From<&'a EnvironmentKey> for EnvironmentKeyV1<'a> {
    fn from(key: &'a EnvironmentKey) -> Self {
        let (organization, pipeline) = (key.pipeline.organization.as_str(), key.pipeline.pipeline.as_str());
        Self { organization, pipeline, name: key.name.as_str() }
    }
}

impl TryFrom<EnvironmentKeyV1<'_>> for EnvironmentKey {
    type Error = Malformed;

    fn try_from(form: EnvironmentKeyV1<'_>) -> Result<Self, Malformed> {
        let organization = Identifier::parse(form.organization)?;
        let pipeline = PipelineKey { organization, pipeline: Identifier::parse(form.pipeline)? };
        Ok(Self { pipeline, name: Identifier::parse(form.name)? })
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

stored_enum!(RoleV1, Role { Viewer, Developer, Maintainer, Admin });
