//! Deployments with how their stages stand, and approvals, as they lie in the store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::session::DeploymentV1;
use crate::domain::{
    Approval, ApprovalId, ApprovalRecord, ApprovalStatus, CommitId, Deployment, DeploymentId, DeploymentRecord,
    DeploymentStatus, EnvironmentKey, IdSeed, Identifier, Malformed, Person, Retried, SessionId, StageRun, StageStatus,
    StepRun, StepSource, StepStatus, Timestamp,
};
use crate::pipelines::StepSourceV1;
use crate::store::record::{self, RecordError, encode, records, stored_enum};
use crate::stored::{EnvironmentKeyV1, PersonV1, SessionIdV1};

records! {
    DeploymentRecordV1<'a> = "deployment",
    ApprovalRecordV1<'a> = "approval",
    ApprovalsV1 = "approval list",
}

/// What a deployment is found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentHead {
    pub environment: EnvironmentKey,
    pub session: Option<SessionId>,
    pub id: DeploymentId,
    pub status: DeploymentStatus,
    pub revision: u32,
}

/// What was said with an approval stands in the approval's own record, not here: it would make this one, which is
/// written with every step, several times as large.
pub fn encode_deployment(environment: &EnvironmentKey, record: &DeploymentRecord) -> Vec<u8> {
    encode(&DeploymentRecordV1 {
        head: HeadV1 {
            environment: EnvironmentKeyV1::from(environment),
            session: record.session.map(SessionIdV1::from),
            deployment: DeploymentV1::from(&record.deployment),
        },
        fencing_token: record.fencing_token,
        user: record.user.as_ref().map(PersonV1::from),
        stages: record.stages.iter().map(StageRunV1::from).collect(),
        retried: record.retried.as_ref().map(|retried| (PersonV1::from(&retried.by), retried.stage as u32)),
    })
}

pub fn decode_deployment(bytes: &[u8]) -> Result<(EnvironmentKey, DeploymentRecord), RecordError> {
    record::read::<DeploymentRecordV1<'_>, _>(bytes)
}

/// The beginning of the record: enough to search many.
pub fn decode_deployment_head(bytes: &[u8]) -> Result<DeploymentHead, RecordError> {
    let form: HeadV1<'_> = record::decode_beginning::<DeploymentRecordV1<'_>, _>(bytes)?;
    DeploymentHead::try_from(form).map_err(record::invalid::<DeploymentRecordV1<'_>>)
}

pub fn encode_approval(environment: &EnvironmentKey, record: &ApprovalRecord) -> Vec<u8> {
    encode(&ApprovalRecordV1 {
        environment: EnvironmentKeyV1::from(environment),
        approval: ApprovalV1::from(&record.approval),
        comment: record.approval.comment.as_deref(),
        deployment: record.deployment.0.0,
        session: record.session.map(SessionIdV1::from),
        commit: record.commit.as_str(),
        stage: record.stage.as_str(),
        attempt: record.attempt,
        requested_by: record.requested_by.as_ref().map(PersonV1::from),
    })
}

pub fn decode_approval(bytes: &[u8]) -> Result<(EnvironmentKey, ApprovalRecord), RecordError> {
    record::read::<ApprovalRecordV1<'_>, _>(bytes)
}

/// Which approvals there are of a deployment, oldest first.
pub fn encode_approvals(approvals: &[ApprovalId]) -> Vec<u8> {
    encode(&ApprovalsV1(approvals.iter().map(|id| id.0.0).collect()))
}

pub fn decode_approvals(bytes: &[u8]) -> Result<Vec<ApprovalId>, RecordError> {
    let ApprovalsV1(form) = record::decode(bytes)?;
    Ok(form.into_iter().map(|seed| ApprovalId(IdSeed(seed))).collect())
}

#[derive(Serialize, Deserialize)]
struct DeploymentRecordV1<'a> {
    #[serde(borrow)]
    head: HeadV1<'a>,
    fencing_token: u64,
    #[serde(borrow)]
    user: Option<PersonV1<'a>>,
    #[serde(borrow)]
    stages: Vec<StageRunV1<'a>>,
    #[serde(borrow)]
    retried: Option<(PersonV1<'a>, u32)>,
}

#[derive(Serialize, Deserialize)]
struct HeadV1<'a> {
    #[serde(borrow)]
    environment: EnvironmentKeyV1<'a>,
    session: Option<SessionIdV1>,
    #[serde(borrow)]
    deployment: DeploymentV1<'a>,
}

#[derive(Serialize, Deserialize)]
struct StageRunV1<'a> {
    name: &'a str,
    status: StageStatusV1,
    attempt: u32,
    #[serde(borrow)]
    approval: Option<ApprovalV1<'a>>,
    #[serde(borrow)]
    steps: Vec<StepRunV1<'a>>,
}

#[derive(Serialize, Deserialize)]
struct StepRunV1<'a> {
    name: &'a str,
    #[serde(borrow)]
    source: Option<StepSourceV1<'a>>,
    status: StepStatusV1,
    exit_code: Option<i32>,
    started_at: Option<i64>,
    finished_at: Option<i64>,
}

#[derive(Serialize, Deserialize)]
struct ApprovalV1<'a> {
    id: [u8; 12],
    status: ApprovalStatusV1,
    requested_at: i64,
    decided_at: Option<i64>,
    #[serde(borrow)]
    decided_by: Option<PersonV1<'a>>,
}

#[derive(Serialize, Deserialize)]
struct ApprovalRecordV1<'a> {
    #[serde(borrow)]
    environment: EnvironmentKeyV1<'a>,
    #[serde(borrow)]
    approval: ApprovalV1<'a>,
    comment: Option<&'a str>,
    deployment: [u8; 12],
    session: Option<SessionIdV1>,
    commit: &'a str,
    stage: &'a str,
    attempt: u32,
    #[serde(borrow)]
    requested_by: Option<PersonV1<'a>>,
}

#[derive(Serialize, Deserialize)]
struct ApprovalsV1(Vec<[u8; 12]>);

stored_enum!(
    StageStatusV1,
    StageStatus { Pending, AwaitingApproval, Queued, Running, Cancelling, Succeeded, Failed, Cancelled, Skipped }
);
stored_enum!(StepStatusV1, StepStatus { Pending, Running, Succeeded, Failed, Cancelled, Skipped });
stored_enum!(ApprovalStatusV1, ApprovalStatus { Pending, Approved, Rejected, Cancelled });

impl TryFrom<DeploymentRecordV1<'_>> for (EnvironmentKey, DeploymentRecord) {
    type Error = Malformed;

    fn try_from(form: DeploymentRecordV1<'_>) -> Result<Self, Malformed> {
        let record = DeploymentRecord {
            deployment: Deployment::try_from(form.head.deployment)?,
            session: form.head.session.map(SessionId::from),
            fencing_token: form.fencing_token,
            user: form.user.map(Person::from),
            stages: form.stages.into_iter().map(StageRun::try_from).collect::<Result<_, _>>()?,
            retried: form.retried.map(|(by, stage)| Retried { by: by.into(), stage: stage as usize }),
        };
        Ok((form.head.environment.try_into()?, record))
    }
}

impl TryFrom<HeadV1<'_>> for DeploymentHead {
    type Error = Malformed;

    fn try_from(form: HeadV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            environment: form.environment.try_into()?,
            session: form.session.map(SessionId::from),
            id: DeploymentId(IdSeed(form.deployment.id)),
            status: form.deployment.status.into(),
            revision: form.deployment.revision,
        })
    }
}

impl TryFrom<ApprovalRecordV1<'_>> for (EnvironmentKey, ApprovalRecord) {
    type Error = Malformed;

    fn try_from(form: ApprovalRecordV1<'_>) -> Result<Self, Malformed> {
        let record = ApprovalRecord {
            approval: Approval { comment: form.comment.map(Arc::from), ..form.approval.into() },
            deployment: DeploymentId(IdSeed(form.deployment)),
            session: form.session.map(SessionId::from),
            commit: CommitId::parse(form.commit)?,
            stage: Identifier::parse(form.stage)?,
            attempt: form.attempt,
            requested_by: form.requested_by.map(Person::from),
        };
        Ok((form.environment.try_into()?, record))
    }
}

impl<'a> From<&'a StageRun> for StageRunV1<'a> {
    fn from(stage: &'a StageRun) -> Self {
        Self {
            name: stage.name.as_str(),
            status: stage.status.into(),
            attempt: stage.attempt,
            approval: stage.approval.as_ref().map(ApprovalV1::from),
            steps: stage.steps.iter().map(StepRunV1::from).collect(),
        }
    }
}

impl TryFrom<StageRunV1<'_>> for StageRun {
    type Error = Malformed;

    fn try_from(form: StageRunV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            name: Identifier::parse(form.name)?,
            status: form.status.into(),
            attempt: form.attempt,
            approval: form.approval.map(Approval::from),
            steps: form.steps.into_iter().map(StepRun::try_from).collect::<Result<_, _>>()?,
        })
    }
}

impl<'a> From<&'a StepRun> for StepRunV1<'a> {
    fn from(step: &'a StepRun) -> Self {
        Self {
            name: step.name.as_str(),
            source: step.source.as_deref().map(StepSourceV1::from),
            status: step.status.into(),
            exit_code: step.exit_code,
            started_at: step.started_at.map(Timestamp::as_millis),
            finished_at: step.finished_at.map(Timestamp::as_millis),
        }
    }
}

impl TryFrom<StepRunV1<'_>> for StepRun {
    type Error = Malformed;

    fn try_from(form: StepRunV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            name: Identifier::parse(form.name)?,
            source: form.source.map(StepSource::try_from).transpose()?.map(Arc::new),
            status: form.status.into(),
            exit_code: form.exit_code,
            started_at: form.started_at.map(Timestamp::from_millis),
            finished_at: form.finished_at.map(Timestamp::from_millis),
        })
    }
}

impl<'a> From<&'a Approval> for ApprovalV1<'a> {
    fn from(approval: &'a Approval) -> Self {
        Self {
            id: approval.id.0.0,
            status: approval.status.into(),
            requested_at: approval.requested_at.as_millis(),
            decided_at: approval.decided_at.map(Timestamp::as_millis),
            decided_by: approval.decided_by.as_ref().map(PersonV1::from),
        }
    }
}

impl From<ApprovalV1<'_>> for Approval {
    fn from(form: ApprovalV1<'_>) -> Self {
        Self {
            id: ApprovalId(IdSeed(form.id)),
            status: form.status.into(),
            requested_at: Timestamp::from_millis(form.requested_at),
            decided_at: form.decided_at.map(Timestamp::from_millis),
            decided_by: form.decided_by.map(Person::from),
            comment: None,
        }
    }
}
