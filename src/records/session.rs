//! Sessions and their deployments as they lie in the store.

use std::sync::Arc;

use crate::stored::{stored, stored_enum};
use domain::{
    Claimed, CommitId, Context, Deadline, Deployment, DeploymentId, DeploymentStatus, Ended, EndedHow, Expiry, Lease,
    Person, Priority, Session, SessionId, Tick, Timestamp,
};
use store::record::records;

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
    /// A deployment without its run, which lies elsewhere.
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
