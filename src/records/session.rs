//! Stored forms of sessions, of their deployments with the states of the stages, and of approvals.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::stored::{EnvironmentKeyV1, PersonV1, SessionIdV1, Stored, stored, stored_enum};
use domain::{
    Approval, ApprovalId, ApprovalRecord, ApprovalStatus, Claimed, CommitId, Context, Deadline, Deployment,
    DeploymentId, DeploymentRecord, DeploymentStatus, Ended, EndedHow, EnvironmentKey, Expiry, Identifier, Lease,
    LogPart, Malformed, Person, Priority, Retried, Session, SessionId, StageRun, StageStatus, StepRun, StepSource,
    StepStatus, Tick, Timestamp,
};
use store::record::{self, RecordError, encode, records};

records!(SessionV1<'a> = "session");

stored! {
    struct SessionV1 of Session {
        id: SessionId,
        user: Person,
        commit: Option<CommitId>,
        context: Option<Context>,
        priority: Priority,
        ttl_seconds: Option<u32>,
        created_at: Timestamp,
        claimed: Option<Claimed>,
        ended: Option<Ended>,
        deployments: Vec<Deployment>,
        deployment_count: u64,
        revision: u64,
    }
    later {}
}

stored! {
    struct ClaimedV1 of Claimed {
        fencing_token: u64,
        at: Timestamp,
        tick: Tick,
        lease: Option<Lease>,
        hold_until: Option<Deadline>,
        unseen_until: Option<Deadline>,
        seen: bool,
    }
}

stored! { struct LeaseV1 of Lease { ttl_seconds: u32, until: Deadline } }
stored! { struct DeadlineV1 of Deadline { at: Timestamp, due: Tick } }
stored! { struct EndedV1 of Ended { at: Timestamp, by: Option<Person>, how: EndedHow } }
stored_enum!(EndedHowV1<'a> of EndedHow { Released, Overridden(by: SessionId), Expired(why: Expiry) });
stored_enum!(ExpiryV1 of Expiry { Ttl, MaxHold, Unasked, Vanished });

stored! {
    /// A deployment without its run, which is stored separately.
    struct DeploymentV1 of Deployment {
        id: DeploymentId,
        commit: CommitId,
        status: DeploymentStatus,
        created_at: Timestamp,
        started_at: Option<Timestamp>,
        finished_at: Option<Timestamp>,
        error: Option<Arc<str>>,
        revision: u32,
        staged: bool,
    } not stored { run: None }
}

stored_enum!(
    DeploymentStatusV1 of DeploymentStatus {
        Queued, Running, Cancelling, Succeeded, Failed, Cancelled, AwaitingApproval,
    }
);

records! {
    DeploymentRecordV1<'a> = "deployment",
    ApprovalRecordV1<'a> = "approval",
    ApprovalsV1 = "approval list",
    LogPartsV1<'a> = "log part list",
}

/// The fields that deployment searches use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentHead {
    pub environment: EnvironmentKey,
    pub session: Option<SessionId>,
    pub id: DeploymentId,
    pub status: DeploymentStatus,
    pub revision: u32,
}

/// Omits comments of approvals, which are in the approvals' own records: they would make this record, which is written
/// with every step, several times as large.
pub fn encode_deployment(environment: &EnvironmentKey, record: &DeploymentRecord) -> Vec<u8> {
    let DeploymentRecord { deployment, session, fencing_token, user, stages, retried } = record;
    encode(&DeploymentRecordV1 {
        head: HeadV1 {
            environment: environment.to_form(),
            session: session.to_form(),
            deployment: deployment.to_form(),
        },
        fencing_token: *fencing_token,
        user: user.to_form(),
        stages: stages.to_form(),
        retried: retried.to_form(),
    })
}

pub fn decode_deployment(bytes: &[u8]) -> Result<(EnvironmentKey, DeploymentRecord), RecordError> {
    record::read::<DeploymentRecordV1<'_>, _>(bytes)
}

/// Decodes only the beginning of the record, for searches through many records.
pub fn decode_deployment_head(bytes: &[u8]) -> Result<DeploymentHead, RecordError> {
    let form: HeadV1<'_> = record::decode_beginning::<DeploymentRecordV1<'_>, _>(bytes)?;
    DeploymentHead::try_from(form).map_err(record::invalid::<DeploymentRecordV1<'_>>)
}

pub fn encode_approval(environment: &EnvironmentKey, record: &ApprovalRecord) -> Vec<u8> {
    let ApprovalRecord { approval, deployment, session, commit, stage, attempt, requested_by } = record;
    encode(&ApprovalRecordV1 {
        environment: environment.to_form(),
        approval: approval.to_form(),
        comment: approval.comment.to_form(),
        deployment: deployment.to_form(),
        session: session.to_form(),
        commit: commit.to_form(),
        stage: stage.to_form(),
        attempt: *attempt,
        requested_by: requested_by.to_form(),
    })
}

pub fn decode_approval(bytes: &[u8]) -> Result<(EnvironmentKey, ApprovalRecord), RecordError> {
    record::read::<ApprovalRecordV1<'_>, _>(bytes)
}

/// The approvals of a deployment, oldest first.
pub fn encode_approvals(approvals: &[ApprovalId]) -> Vec<u8> {
    encode(&ApprovalsV1(approvals.iter().map(Stored::to_form).collect()))
}

pub fn decode_approvals(bytes: &[u8]) -> Result<Vec<ApprovalId>, RecordError> {
    let ApprovalsV1(form) = record::decode(bytes)?;
    Vec::from_form(form).map_err(record::invalid::<ApprovalsV1>)
}

/// The parts of a deployment's log, oldest first.
pub fn encode_log_parts(parts: &[LogPart]) -> Vec<u8> {
    encode(&LogPartsV1(parts.iter().map(|part| (part.number, &*part.node, part.in_store)).collect()))
}

pub fn decode_log_parts(bytes: &[u8]) -> Result<Vec<LogPart>, RecordError> {
    let LogPartsV1(form) = record::decode(bytes)?;
    let part = |(number, node, in_store): (u32, &str, bool)| LogPart { number, node: Arc::from(node), in_store };
    Ok(form.into_iter().map(part).collect())
}

#[derive(Serialize, Deserialize)]
struct LogPartsV1<'a>(#[serde(borrow)] Vec<(u32, &'a str, bool)>);

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
    #[serde(borrow)]
    session: Option<SessionIdV1<'a>>,
    #[serde(borrow)]
    deployment: DeploymentV1<'a>,
}

stored! {
    struct StageRunV1 of StageRun {
        name: Identifier,
        status: StageStatus,
        attempt: u32,
        approval: Option<Approval>,
        steps: Vec<StepRun>,
    }
}

stored! {
    struct StepRunV1 of StepRun {
        name: Identifier,
        source: Option<Arc<StepSource>>,
        status: StepStatus,
        exit_code: Option<i32>,
        started_at: Option<Timestamp>,
        finished_at: Option<Timestamp>,
    }
}

stored! {
    struct ApprovalV1 of Approval {
        id: ApprovalId,
        status: ApprovalStatus,
        requested_at: Timestamp,
        decided_at: Option<Timestamp>,
        decided_by: Option<Person>,
    } not stored { comment: None }
}

#[derive(Serialize, Deserialize)]
struct ApprovalRecordV1<'a> {
    #[serde(borrow)]
    environment: EnvironmentKeyV1<'a>,
    #[serde(borrow)]
    approval: ApprovalV1<'a>,
    comment: Option<&'a str>,
    deployment: [u8; 12],
    #[serde(borrow)]
    session: Option<SessionIdV1<'a>>,
    commit: &'a str,
    stage: &'a str,
    attempt: u32,
    #[serde(borrow)]
    requested_by: Option<PersonV1<'a>>,
}

#[derive(Serialize, Deserialize)]
struct ApprovalsV1(Vec<[u8; 12]>);

stored_enum!(
    StageStatusV1 of StageStatus {
        Pending, AwaitingApproval, Queued, Running, Cancelling, Succeeded, Failed, Cancelled, Skipped,
    }
);
stored_enum!(StepStatusV1 of StepStatus { Pending, Running, Succeeded, Failed, Cancelled, Skipped });
stored_enum!(ApprovalStatusV1 of ApprovalStatus { Pending, Approved, Rejected, Cancelled });

impl Stored for Retried {
    type Form<'a> = (PersonV1<'a>, u32);

    fn to_form(&self) -> Self::Form<'_> {
        (self.by.to_form(), self.stage as u32)
    }

    fn from_form((by, stage): Self::Form<'_>) -> Result<Self, Malformed> {
        Ok(Self { by: Person::from_form(by)?, stage: stage as usize })
    }
}

impl TryFrom<DeploymentRecordV1<'_>> for (EnvironmentKey, DeploymentRecord) {
    type Error = Malformed;

    fn try_from(form: DeploymentRecordV1<'_>) -> Result<Self, Malformed> {
        let record = DeploymentRecord {
            deployment: Stored::from_form(form.head.deployment)?,
            session: Stored::from_form(form.head.session)?,
            fencing_token: form.fencing_token,
            user: Stored::from_form(form.user)?,
            stages: Stored::from_form(form.stages)?,
            retried: Stored::from_form(form.retried)?,
        };
        Ok((Stored::from_form(form.head.environment)?, record))
    }
}

impl TryFrom<HeadV1<'_>> for DeploymentHead {
    type Error = Malformed;

    fn try_from(form: HeadV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            environment: Stored::from_form(form.environment)?,
            session: Stored::from_form(form.session)?,
            id: Stored::from_form(form.deployment.id)?,
            status: Stored::from_form(form.deployment.status)?,
            revision: form.deployment.revision,
        })
    }
}

impl TryFrom<ApprovalRecordV1<'_>> for (EnvironmentKey, ApprovalRecord) {
    type Error = Malformed;

    fn try_from(form: ApprovalRecordV1<'_>) -> Result<Self, Malformed> {
        let record = ApprovalRecord {
            approval: Approval { comment: Stored::from_form(form.comment)?, ..Stored::from_form(form.approval)? },
            deployment: Stored::from_form(form.deployment)?,
            session: Stored::from_form(form.session)?,
            commit: Stored::from_form(form.commit)?,
            stage: Stored::from_form(form.stage)?,
            attempt: form.attempt,
            requested_by: Stored::from_form(form.requested_by)?,
        };
        Ok((Stored::from_form(form.environment)?, record))
    }
}
