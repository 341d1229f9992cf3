//! The stored form of what the domain knows: postcard behind a version byte, apart from the domain's types, so that
//! a change of those cannot silently change what lies on the disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::{
    CommitId, Configuration, Context, Deployment, DeploymentId, DeploymentStatus, Description, Ended, EndedHow,
    Environment, IdSeed, Identifier, LabelValue, LastDeployment, Malformed, Person, Plan, Role, Session, SessionId,
    Timestamp, UserId, VariableName, VariableValue,
};

const VERSION: u8 = 1;

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

/// An environment as it lies in the store, and up to where its history has been trimmed.
pub struct StoredEnvironment {
    pub environment: Environment,
    /// Records of sessions before this number are no longer in the store.
    pub kept_from: u64,
}

pub fn encode_environment(environment: &Environment, kept_from: u64) -> Vec<u8> {
    let form = EnvironmentV1 {
        configuration: environment.configuration.as_deref().map(ConfigurationV1::from),
        configuration_revision: environment.configuration_revision,
        revision: environment.revision,
        fencing_token: environment.fencing_token,
        sessions: environment.sessions,
        first_session: environment.first_session,
        kept_from,
        lock: environment.lock.as_ref().map(SessionV1::from),
        leaving: environment.leaving.as_ref().map(SessionV1::from),
        last_deployment: environment.last_deployment.as_ref().map(|last| LastDeploymentV1 {
            id: last.id.0.0,
            commit: last.commit.as_str(),
            status: last.status.into(),
            finished_at: last.finished_at.as_millis(),
        }),
    };
    encode(&form)
}

pub fn decode_environment(bytes: &[u8]) -> Result<StoredEnvironment, Unreadable> {
    let form: EnvironmentV1<'_> = decode(bytes)?;
    let environment = Environment {
        configuration: form.configuration.map(Configuration::try_from).transpose()?.map(Arc::new),
        configuration_revision: form.configuration_revision,
        revision: form.revision,
        fencing_token: form.fencing_token,
        sessions: form.sessions,
        first_session: form.first_session,
        lock: form.lock.map(Session::try_from).transpose()?,
        leaving: form.leaving.map(Session::try_from).transpose()?,
        last_deployment: form.last_deployment.map(LastDeployment::try_from).transpose()?,
    };
    Ok(StoredEnvironment { environment, kept_from: form.kept_from })
}

/// Whether an environment's record is of one that exists, without reading the rest of it.
pub fn is_of_existing(bytes: &[u8]) -> Result<bool, Unreadable> {
    #[derive(Deserialize)]
    enum Presence {
        Absent,
        Present,
    }
    match bytes.split_first() {
        // postcard begins the record with whether there is a configuration.
        Some((&VERSION, form)) => Ok(matches!(postcard::take_from_bytes(form)?.0, Presence::Present)),
        Some((&version, _)) => Err(Unreadable::Version(version)),
        None => Err(Unreadable::Empty),
    }
}

pub fn encode_configuration(configuration: &Configuration) -> Vec<u8> {
    encode(&ConfigurationV1::from(configuration))
}

pub fn encode_session(session: &Session) -> Vec<u8> {
    encode(&SessionV1::from(session))
}

pub fn decode_session(bytes: &[u8]) -> Result<Session, Unreadable> {
    Ok(Session::try_from(decode::<SessionV1<'_>>(bytes)?)?)
}

fn encode<T: Serialize>(form: &T) -> Vec<u8> {
    /// Room for an ordinary record, so that it is written without growing.
    const USUAL_BYTES: usize = 384;
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    bytes.push(VERSION);
    postcard::to_extend(form, bytes).expect("our forms have no maps of unknown length, and memory does not refuse")
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Unreadable> {
    match bytes.split_first() {
        Some((&VERSION, form)) => Ok(postcard::from_bytes(form)?),
        Some((&version, _)) => Err(Unreadable::Version(version)),
        None => Err(Unreadable::Empty),
    }
}

#[derive(Serialize, Deserialize)]
struct EnvironmentV1<'a> {
    #[serde(borrow)]
    configuration: Option<ConfigurationV1<'a>>,
    configuration_revision: u64,
    revision: u64,
    fencing_token: u64,
    sessions: u64,
    first_session: u64,
    kept_from: u64,
    #[serde(borrow)]
    lock: Option<SessionV1<'a>>,
    #[serde(borrow)]
    leaving: Option<SessionV1<'a>>,
    #[serde(borrow)]
    last_deployment: Option<LastDeploymentV1<'a>>,
}

#[derive(Serialize, Deserialize)]
struct ConfigurationV1<'a> {
    description: &'a str,
    #[serde(borrow)]
    labels: BTreeMap<&'a str, &'a str>,
    deploy_on_claim: bool,
    force_claim_role: RoleV1,
    disabled: bool,
    #[serde(borrow)]
    variables: BTreeMap<&'a str, &'a str>,
}

#[derive(Serialize, Deserialize)]
struct SessionV1<'a> {
    seed: [u8; 12],
    number: u64,
    #[serde(borrow)]
    user: PersonV1<'a>,
    commit: Option<&'a str>,
    context: Option<&'a str>,
    fencing_token: u64,
    created_at: i64,
    claimed_at: i64,
    #[serde(borrow)]
    ended: Option<EndedV1<'a>>,
    #[serde(borrow)]
    deployments: Vec<DeploymentV1<'a>>,
    deployment_count: u64,
    revision: u64,
}

#[derive(Serialize, Deserialize)]
struct PersonV1<'a> {
    id: [u8; 12],
    name: &'a str,
}

#[derive(Serialize, Deserialize)]
struct EndedV1<'a> {
    at: i64,
    #[serde(borrow)]
    by: PersonV1<'a>,
    how: EndedHowV1,
}

#[derive(Serialize, Deserialize)]
enum EndedHowV1 {
    Released,
    Overridden { seed: [u8; 12], number: u64 },
}

#[derive(Serialize, Deserialize)]
struct DeploymentV1<'a> {
    id: [u8; 12],
    commit: &'a str,
    plan: PlanV1,
    status: DeploymentStatusV1,
    created_at: i64,
    started_at: Option<i64>,
    finished_at: Option<i64>,
    error: Option<&'a str>,
}

#[derive(Serialize, Deserialize)]
struct LastDeploymentV1<'a> {
    id: [u8; 12],
    commit: &'a str,
    status: DeploymentStatusV1,
    finished_at: i64,
}

/// An enum of the domain and its stored twin: postcard stores the place in the list, so the order here never changes.
macro_rules! stored_enum {
    ($stored:ident, $domain:ident { $($variant:ident),* }) => {
        #[derive(Serialize, Deserialize)]
        enum $stored { $($variant),* }

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

stored_enum!(RoleV1, Role { Viewer, Developer, Maintainer, Admin });
stored_enum!(PlanV1, Plan { Nothing, Stages });
stored_enum!(DeploymentStatusV1, DeploymentStatus { Queued, Running, Cancelling, Succeeded, Failed, Cancelled });

impl<'a> From<&'a Configuration> for ConfigurationV1<'a> {
    fn from(configuration: &'a Configuration) -> Self {
        Self {
            description: configuration.description.as_str(),
            labels: configuration.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            deploy_on_claim: configuration.deploy_on_claim,
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
            force_claim_role: form.force_claim_role.into(),
            disabled: form.disabled,
            variables: form.variables.into_iter().map(variable).collect::<Result<_, Malformed>>()?,
        })
    }
}

impl<'a> From<&'a Session> for SessionV1<'a> {
    fn from(session: &'a Session) -> Self {
        Self {
            seed: session.id.seed.0,
            number: session.id.number,
            user: PersonV1::from(&session.user),
            commit: session.commit.as_ref().map(CommitId::as_str),
            context: session.context.as_ref().map(Context::as_str),
            fencing_token: session.fencing_token,
            created_at: session.created_at.as_millis(),
            claimed_at: session.claimed_at.as_millis(),
            ended: session.ended.as_ref().map(EndedV1::from),
            deployments: session.deployments.iter().map(DeploymentV1::from).collect(),
            deployment_count: session.deployment_count,
            revision: session.revision,
        }
    }
}

impl TryFrom<SessionV1<'_>> for Session {
    type Error = Malformed;

    fn try_from(form: SessionV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: SessionId { seed: IdSeed(form.seed), number: form.number },
            user: form.user.into(),
            commit: form.commit.map(CommitId::parse).transpose()?,
            context: form.context.map(Context::parse).transpose()?,
            fencing_token: form.fencing_token,
            created_at: Timestamp::from_millis(form.created_at),
            claimed_at: Timestamp::from_millis(form.claimed_at),
            ended: form.ended.map(Ended::from),
            deployments: form.deployments.into_iter().map(Deployment::try_from).collect::<Result<_, _>>()?,
            deployment_count: form.deployment_count,
            revision: form.revision,
        })
    }
}

impl<'a> From<&'a Person> for PersonV1<'a> {
    fn from(person: &'a Person) -> Self {
        Self { id: person.id.0.0, name: &person.name }
    }
}

impl From<PersonV1<'_>> for Person {
    fn from(form: PersonV1<'_>) -> Self {
        Self { id: UserId(IdSeed(form.id)), name: Arc::from(form.name) }
    }
}

impl<'a> From<&'a Ended> for EndedV1<'a> {
    fn from(ended: &'a Ended) -> Self {
        let how = match ended.how {
            EndedHow::Released => EndedHowV1::Released,
            EndedHow::Overridden(by) => EndedHowV1::Overridden { seed: by.seed.0, number: by.number },
        };
        Self { at: ended.at.as_millis(), by: PersonV1::from(&ended.by), how }
    }
}

impl From<EndedV1<'_>> for Ended {
    fn from(form: EndedV1<'_>) -> Self {
        let how = match form.how {
            EndedHowV1::Released => EndedHow::Released,
            EndedHowV1::Overridden { seed, number } => EndedHow::Overridden(SessionId { seed: IdSeed(seed), number }),
        };
        Self { at: Timestamp::from_millis(form.at), by: form.by.into(), how }
    }
}

impl<'a> From<&'a Deployment> for DeploymentV1<'a> {
    fn from(deployment: &'a Deployment) -> Self {
        Self {
            id: deployment.id.0.0,
            commit: deployment.commit.as_str(),
            plan: deployment.plan.into(),
            status: deployment.status.into(),
            created_at: deployment.created_at.as_millis(),
            started_at: deployment.started_at.map(Timestamp::as_millis),
            finished_at: deployment.finished_at.map(Timestamp::as_millis),
            error: deployment.error.as_deref(),
        }
    }
}

impl TryFrom<DeploymentV1<'_>> for Deployment {
    type Error = Malformed;

    fn try_from(form: DeploymentV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: DeploymentId(IdSeed(form.id)),
            commit: CommitId::parse(form.commit)?,
            plan: form.plan.into(),
            status: form.status.into(),
            created_at: Timestamp::from_millis(form.created_at),
            started_at: form.started_at.map(Timestamp::from_millis),
            finished_at: form.finished_at.map(Timestamp::from_millis),
            error: form.error.map(Arc::from),
        })
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
