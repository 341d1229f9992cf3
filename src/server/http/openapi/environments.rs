//! The operations on environments and sessions, and the utilisation report.

use serde_json::json;

use super::operation::{Limit, Operation};
use super::parameters::time;
use crate::forms::{
    ClaimAnyForm, ClaimForm, ConfigurationForm, DeployForm, EnvironmentName, ForceClaimForm, HeartbeatForm, Integer,
    List,
};
use crate::http::codes::Code;
use crate::http::dto::{
    DeploymentView, EnvironmentListItem, EnvironmentView, ForceClaimView, SessionListItem, SessionView, WaiterView,
};
use crate::http::paging::{PLACE_MAX, PagePagination};
use crate::http::resources::environments::{Label, NAMES_MAX};
use crate::http::resources::sessions::LISTED;
use crate::http::resources::utilisation::UtilisationView;
use domain::{Identifier, LABELS_MAX, LockStatus};

const ENVIRONMENTS: &str = "Ephemeral environments";

pub fn list_environments() -> Operation {
    Operation::api(ENVIRONMENTS, "listEnvironments")
        .about("Each with its lock status; all of them unless `limit` or `offset` is given.")
        .query::<LockStatus>("lockStatus", "Only those with this status")
        .query::<List<Label, 0, LABELS_MAX>>("label", "Only those with this label, `key:value`; may be repeated")
        .query::<List<EnvironmentName, 0, NAMES_MAX>>(
            "envName",
            "Only those with this name; may be repeated. One that does not exist is left out",
        )
        .lists::<EnvironmentListItem<'_>>("The environments")
}

pub fn get_environment() -> Operation {
    Operation::api(ENVIRONMENTS, "getEnvironment")
        .about("With its configuration and its lock.")
        .answers_when_changed::<EnvironmentView<'_>>("The environment")
}

pub fn put_environment() -> Operation {
    Operation::api(ENVIRONMENTS, "putEnvironment")
        .about("Creates it, or replaces its configuration.")
        .header("If-Match", "The `ETag` it was read with: 412 if the configuration has changed since")
        .header("If-None-Match", "`*`: only if the environment does not exist yet")
        .creates("envName")
        .body::<ConfigurationForm>()
        .answers::<EnvironmentView<'_>>(200, "Changed", &["ETag"])
        .answers::<EnvironmentView<'_>>(201, "Created", &["ETag", "Location"])
        .fails(&[Code::PreconditionFailed])
}

pub fn delete_environment() -> Operation {
    Operation::api(ENVIRONMENTS, "deleteEnvironment")
        .about(
            "A locked environment is not deleted. Its fencing tokens are never reused, even by a new environment of \
             the same name.",
        )
        .header("If-Match", "The `ETag` it was read with: 412 if the configuration has changed since")
        .on_example("envName")
        .deletes("Deleted")
        .fails(&[
            Code::EnvironmentLocked,
            Code::EnvironmentResetting,
            Code::EnvironmentInUse,
            Code::DeploymentRunning,
            Code::PreconditionFailed,
        ])
}

pub fn get_history() -> Operation {
    Operation::api(ENVIRONMENTS, "getEnvironmentHistory")
        .titled("Get History")
        .about("Its sessions, newest first, the present one included; with `from` or `to`, only those that had the lock then.")
        .query::<Integer<1, { PLACE_MAX as i64 }>>("page", "Which page, from 1; the first if left out")
        .query::<Limit>("limit", "How many per page, 50 if left out")
        .query::<Integer<0, { PLACE_MAX as i64 }>>("offset", "Instead of `page`: after how many")
        .query_by("from", "Only those that did not end before this time", time())
        .query_by("to", "Only those that had the lock before this time", time())
        .answers_list::<SessionView<'_>, PagePagination>("One page")
}

pub fn get_queue() -> Operation {
    Operation::api(ENVIRONMENTS, "getEnvironmentQueue")
        .titled("Queue")
        .about(
            "Who waits for this environment, in order: by name, or for any environment with labels that it has \
             (`any`). `queueLength` of an environment counts the former.",
        )
        .lists::<WaiterView<'_>>("The queue")
}

pub fn claim_session() -> Operation {
    Operation::api(ENVIRONMENTS, "claimSession")
        .about(
            "Takes the lock if it is free. If it is not: 409 at once; with `waitSeconds` it waits that long; with \
             `queue` it is answered 202 with a queued session, which keeps its position while it is polled at least \
             every 60 seconds. A 409 names the holder; `warning` of a queued session says if the holder's lock never expires \
             by itself. A client that disconnects, or closes its sending half, before it is answered gets \
             nothing.",
        )
        .body::<ClaimForm>()
        .answers::<SessionView<'_>>(201, "The lock is yours", &["Location"])
        .answers::<SessionView<'_>>(202, "Queued", &["Location"])
        .fails(&CLAIM_FAULTS)
}

const CLAIM_FAULTS: [Code; 7] = [
    Code::EnvironmentNotFound,
    Code::EnvironmentLocked,
    Code::EnvironmentResetting,
    Code::EnvironmentDisabled,
    Code::QueueFull,
    Code::SessionReleased,
    Code::ShuttingDown,
];

pub fn claim_any() -> Operation {
    Operation::api(ENVIRONMENTS, "claimAnyEnvironment")
        .titled("Claim Any")
        .about(
            "Claims whichever environment with all these labels is free, the least recently used first; waits and \
             queues as Claim Session does, in one queue with claims of a single environment. A TTL above the \
             environment's limit is shortened to it. A 409 lists in `holders` who has what it could have had, at most ten. A queued session has no `envName` until it has an environment; \
             poll it at its `Location`.",
        )
        .body::<ClaimAnyForm>()
        .answers::<SessionView<'_>>(201, "The lock is yours", &["Location"])
        .answers::<SessionView<'_>>(202, "Queued", &["Location"])
        .fails(&CLAIM_FAULTS)
}

pub fn list_sessions() -> Operation {
    let statuses: Vec<_> = LISTED.iter().map(|status| status.as_str()).collect();
    Operation::api(ENVIRONMENTS, "listSessions")
        .about(
            "The sessions of the whole organization that hold a lock or wait for one, newest first; ended ones are in the \
             history of their environment. A claim that waits on its connection has no session yet: the queue of its \
             environment shows it. Reading the list does not hold the place of a queued session.",
        )
        .query::<bool>("mine", "`true`: only the caller's own")
        .query_named(
            "lockStatus",
            "Only those that hold a lock (`active`), or that wait (`queued`)",
            "LiveSessionStatus",
            json!({ "type": "string", "enum": statuses, "description": "The status of a session that has not ended." }),
        )
        .query::<Identifier>("pipelineId", "Only those of this pipeline")
        .query::<Identifier>("envName", "Only those in environments of this name; not those that wait for any environment")
        .query_by("user", "Only those of the member with this name or id", json!({ "type": "string", "examples": ["ana"] }))
        .lists::<SessionListItem<'_>>("The sessions")
}

pub fn get_utilisation() -> Operation {
    Operation::api(ENVIRONMENTS, "getUtilisation")
        .titled("Utilisation")
        .about(
            "How busy each environment was during a period of at most 31 days, how long sessions waited for their locks, and who \
             held longest: as sums, and per bucket, which is an hour (up to 2 days), 6 hours (up to 8 days) or a day. It is \
             made from the histories, so it knows what they still keep.",
        )
        .query_by("from", "When the period begins; a day before `to` if left out", time())
        .query_by("to", "When it ends; now if left out or later", time())
        .query::<Identifier>("pipelineId", "Only the environments of this pipeline")
        .answers::<UtilisationView<'_>>(200, "The report", &[])
}

pub fn get_any_session() -> Operation {
    Operation::api(ENVIRONMENTS, "getPipelineSession")
        .titled("Get Status of a Queued Session")
        .about("A session that was queued, by its id alone: while it waits for any environment, and after it has one.")
        .answers_when_changed::<SessionView<'_>>("The session")
}

pub fn release_any_session() -> Operation {
    Operation::api(ENVIRONMENTS, "releasePipelineSession")
        .titled("Release a Queued Session")
        .about("Leaves the queue for any environment, or releases the lock if it has got one meanwhile.")
        .writes()
        .answers::<SessionView<'_>>(200, "The session as it ended", &[])
        .fails(&[Code::NotSessionHolder])
}

pub fn heartbeat() -> Operation {
    Operation::api(ENVIRONMENTS, "sendHeartbeat")
        .titled("Heartbeat")
        .about("Restarts the session's TTL; see `expiresAt`.")
        .body::<HeartbeatForm>()
        .answers::<SessionView<'_>>(200, "The session", &[])
        .fails(&HOLDER_FAULTS)
}

const HOLDER_FAULTS: [Code; 6] = [
    Code::NotSessionHolder,
    Code::SessionOverridden,
    Code::SessionReleased,
    Code::SessionExpired,
    Code::SessionQueued,
    Code::StaleFencingToken,
];

pub fn force_claim() -> Operation {
    Operation::api(ENVIRONMENTS, "forceClaim")
        .about("Ends the holder's session, if there is one, and takes the lock in one step. The queue keeps waiting.")
        .body::<ForceClaimForm>()
        .answers::<ForceClaimView<'_>>(201, "The lock is yours", &["Location"])
        .fails(&[Code::EnvironmentDisabled])
}

pub fn get_session() -> Operation {
    Operation::api(ENVIRONMENTS, "getSessionStatus")
        .about("Also long after it has ended; says whether it was overridden, by whom and when.")
        .answers_when_changed::<SessionView<'_>>("The session")
}

pub fn deploy_commit() -> Operation {
    Operation::api(ENVIRONMENTS, "deployCommit")
        .about(
            "Deploys in the caller's own session, after the earlier deployments of the session. `Location` is the \
             deployment. A retry with the same `Idempotency-Key` gets the answer from when it was accepted: 202, even \
             if the first request was answered 200.",
        )
        .body::<DeployForm>()
        .answers::<DeploymentView<'_>>(200, "The deployment, finished within `waitSeconds`", &["Location"])
        .answers::<DeploymentView<'_>>(202, "The deployment", &["Location"])
        .fails(&HOLDER_FAULTS)
        .fails(&[Code::QueueFull])
}

pub fn release_session() -> Operation {
    Operation::api(ENVIRONMENTS, "releaseSession")
        .about(
            "Releases the lock and cancels the session's unfinished deployments. Repeating it is no error, nor is \
             releasing an overridden session: the answer says how it ended.",
        )
        .writes()
        .answers::<SessionView<'_>>(200, "The session as it ended", &[])
        .fails(&[Code::NotSessionHolder])
}

pub fn release_lock() -> Operation {
    Operation::api(ENVIRONMENTS, "releaseLock")
        .about(
            "Releases the caller's own lock without its session id: the session that holds the environment now, if the caller \
             claimed it. A maintainer releases anybody's. A repeated request finds no lock and is answered 404, or releases \
             the caller's next session if there is one; to be safe against that, release the session by its id.",
        )
        .writes()
        .answers::<SessionView<'_>>(200, "The session as it ended", &[])
        .fails(&[Code::NotSessionHolder, Code::LockNotFound])
}
