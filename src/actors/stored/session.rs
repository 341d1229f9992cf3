//! Sessions and their deployments as they lie in the store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::{
    Claimed, CommitId, Context, Deadline, Deployment, DeploymentId, DeploymentStatus, Ended, EndedHow, Expiry, IdSeed,
    Lease, Malformed, Person, Priority, Session, Tick, Timestamp,
};
use crate::store::record::{records, stored_enum};
use crate::stored::{PersonV1, SessionIdV1};

records!(SessionV1<'a> = "session");

#[derive(Serialize, Deserialize)]
pub struct SessionV1<'a> {
    pub id: SessionIdV1,
    #[serde(borrow)]
    pub user: PersonV1<'a>,
    pub commit: Option<&'a str>,
    pub context: Option<&'a str>,
    pub priority: i8,
    pub ttl_seconds: Option<u32>,
    pub created_at: i64,
    pub claimed: Option<ClaimedV1>,
    #[serde(borrow)]
    pub ended: Option<EndedV1<'a>>,
    #[serde(borrow)]
    pub deployments: Vec<DeploymentV1<'a>>,
    pub deployment_count: u64,
    pub revision: u64,
}

#[derive(Serialize, Deserialize)]
pub struct ClaimedV1 {
    pub fencing_token: u64,
    pub at: i64,
    pub tick: i64,
    pub lease: Option<(u32, DeadlineV1)>,
    pub hold_until: Option<DeadlineV1>,
    pub unseen_until: Option<DeadlineV1>,
    pub seen: bool,
}

#[derive(Serialize, Deserialize)]
pub struct DeadlineV1 {
    pub at: i64,
    pub due: i64,
}

#[derive(Serialize, Deserialize)]
pub struct EndedV1<'a> {
    pub at: i64,
    #[serde(borrow)]
    pub by: Option<PersonV1<'a>>,
    pub how: EndedHowV1,
}

#[derive(Serialize, Deserialize)]
pub enum EndedHowV1 {
    Released,
    Overridden(SessionIdV1),
    Expired(ExpiryV1),
}

/// A deployment without its run, which lies elsewhere.
#[derive(Serialize, Deserialize)]
pub struct DeploymentV1<'a> {
    pub id: [u8; 12],
    pub commit: &'a str,
    pub status: DeploymentStatusV1,
    pub created_at: i64,
    pub started_at: Option<i64>,
    pub finished_at: Option<i64>,
    pub error: Option<&'a str>,
    pub revision: u32,
    pub staged: bool,
}

stored_enum!(ExpiryV1, Expiry { Ttl, MaxHold, Unasked, Vanished });
stored_enum!(
    DeploymentStatusV1,
    DeploymentStatus { Queued, Running, Cancelling, Succeeded, Failed, Cancelled, AwaitingApproval }
);

impl<'a> From<&'a Session> for SessionV1<'a> {
    fn from(session: &'a Session) -> Self {
        // Each field by name: a new one cannot be forgotten here.
        let Session {
            id,
            user,
            commit,
            context,
            priority,
            ttl_seconds,
            created_at,
            claimed,
            ended,
            deployments,
            deployment_count,
            revision,
        } = session;
        Self {
            id: (*id).into(),
            user: PersonV1::from(user),
            commit: commit.as_ref().map(CommitId::as_str),
            context: context.as_ref().map(Context::as_str),
            priority: priority.get(),
            ttl_seconds: *ttl_seconds,
            created_at: created_at.as_millis(),
            claimed: claimed.as_ref().map(ClaimedV1::from),
            ended: ended.as_ref().map(EndedV1::from),
            deployments: deployments.iter().map(DeploymentV1::from).collect(),
            deployment_count: *deployment_count,
            revision: *revision,
        }
    }
}

impl TryFrom<SessionV1<'_>> for Session {
    type Error = Malformed;

    fn try_from(form: SessionV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: form.id.into(),
            user: form.user.into(),
            commit: form.commit.map(CommitId::parse).transpose()?,
            context: form.context.map(Context::parse).transpose()?,
            priority: Priority::new(form.priority.into())?,
            ttl_seconds: form.ttl_seconds,
            created_at: Timestamp::from_millis(form.created_at),
            claimed: form.claimed.map(Claimed::from),
            ended: form.ended.map(Ended::from),
            deployments: form.deployments.into_iter().map(Deployment::try_from).collect::<Result<_, _>>()?,
            deployment_count: form.deployment_count,
            revision: form.revision,
        })
    }
}

impl From<&Claimed> for ClaimedV1 {
    fn from(claimed: &Claimed) -> Self {
        Self {
            fencing_token: claimed.fencing_token,
            at: claimed.at.as_millis(),
            tick: claimed.tick.0,
            lease: claimed.lease.map(|lease| (lease.ttl_seconds, lease.until.into())),
            hold_until: claimed.hold_until.map(DeadlineV1::from),
            unseen_until: claimed.unseen_until.map(DeadlineV1::from),
            seen: claimed.seen,
        }
    }
}

impl From<ClaimedV1> for Claimed {
    fn from(form: ClaimedV1) -> Self {
        Self {
            fencing_token: form.fencing_token,
            at: Timestamp::from_millis(form.at),
            tick: Tick(form.tick),
            lease: form.lease.map(|(ttl_seconds, until)| Lease { ttl_seconds, until: until.into() }),
            hold_until: form.hold_until.map(Deadline::from),
            unseen_until: form.unseen_until.map(Deadline::from),
            seen: form.seen,
        }
    }
}

impl From<Deadline> for DeadlineV1 {
    fn from(deadline: Deadline) -> Self {
        Self { at: deadline.at.as_millis(), due: deadline.due.0 }
    }
}

impl From<DeadlineV1> for Deadline {
    fn from(form: DeadlineV1) -> Self {
        Self { at: Timestamp::from_millis(form.at), due: Tick(form.due) }
    }
}

impl<'a> From<&'a Ended> for EndedV1<'a> {
    fn from(ended: &'a Ended) -> Self {
        let how = match ended.how {
            EndedHow::Released => EndedHowV1::Released,
            EndedHow::Overridden(by) => EndedHowV1::Overridden(by.into()),
            EndedHow::Expired(why) => EndedHowV1::Expired(why.into()),
        };
        Self { at: ended.at.as_millis(), by: ended.by.as_ref().map(PersonV1::from), how }
    }
}

impl From<EndedV1<'_>> for Ended {
    fn from(form: EndedV1<'_>) -> Self {
        let how = match form.how {
            EndedHowV1::Released => EndedHow::Released,
            EndedHowV1::Overridden(by) => EndedHow::Overridden(by.into()),
            EndedHowV1::Expired(why) => EndedHow::Expired(why.into()),
        };
        Self { at: Timestamp::from_millis(form.at), by: form.by.map(Person::from), how }
    }
}

impl<'a> From<&'a Deployment> for DeploymentV1<'a> {
    fn from(deployment: &'a Deployment) -> Self {
        Self {
            id: deployment.id.0.0,
            commit: deployment.commit.as_str(),
            status: deployment.status.into(),
            created_at: deployment.created_at.as_millis(),
            started_at: deployment.started_at.map(Timestamp::as_millis),
            finished_at: deployment.finished_at.map(Timestamp::as_millis),
            error: deployment.error.as_deref(),
            revision: deployment.revision,
            staged: deployment.staged,
        }
    }
}

impl TryFrom<DeploymentV1<'_>> for Deployment {
    type Error = Malformed;

    fn try_from(form: DeploymentV1<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: DeploymentId(IdSeed(form.id)),
            commit: CommitId::parse(form.commit)?,
            status: form.status.into(),
            created_at: Timestamp::from_millis(form.created_at),
            started_at: form.started_at.map(Timestamp::from_millis),
            finished_at: form.finished_at.map(Timestamp::from_millis),
            error: form.error.map(Arc::from),
            revision: form.revision,
            staged: form.staged,
            run: None,
        })
    }
}
