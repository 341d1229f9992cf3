//! Forms for requests about a session: claim, deploy, heartbeat.

use serde_json::{Value, json};

use super::element::Element;
use super::reader::Reader;
use super::schema::Schemas;
use super::types::{Integer, Map};
use super::{Form, ToJson, form};
use domain::{CommitId, Context, Identifier, LABELS_MAX, LabelValue, Priority, SECONDS_MAX};

/// The longest time that a request waits: proxies abort longer ones.
pub const WAIT_SECONDS_MAX: u64 = 300;

pub type WaitSeconds = Integer<0, { WAIT_SECONDS_MAX as i64 }>;
pub type Seconds = Integer<1, { SECONDS_MAX as i64 }>;
pub type Labels = Map<Identifier, LabelValue, LABELS_MAX>;
type FencingToken = Integer<0, { i64::MAX }>;

form! {
    /// The options of every claim, forced or not.
    #[schema("examples": [{ "commitId": "c0ffee1", "context": "trying the API", "ttlSeconds": 60 }])]
    pub struct ForceClaimForm as "ForceClaimRequest" {
        /// The commit. Deployed immediately if the environment deploys on claim.
        nullable commit_id: CommitId,
        /// The reason, for others who find the environment taken.
        nullable context: Context,
        /// The session expires this long after its last activity: claim, heartbeat, deploy. At most the environment's
        /// `maxTtlSeconds`; its `defaultTtlSeconds` if left out. Without either, and without the environment's
        /// `maxHoldSeconds`, the lock never expires on its own, and the session's `warning` says so.
        #[schema("examples": [900])]
        nullable ttl_seconds: Seconds,
    }
}

form! {
    /// A claim of one environment.
    #[schema("examples": [{ "commitId": "c0ffee1", "context": "trying the API", "ttlSeconds": 60 }])]
    pub struct ClaimForm as "ClaimRequest" {
        flatten request: ForceClaimForm,
        /// How long to wait for the lock if it is taken.
        #[schema("examples": [30])]
        nullable wait_seconds: WaitSeconds,
        /// Whether to answer 202 with a queued session if the lock is taken (after `waitSeconds`, if that is given
        /// too).
        nullable(false) queue: bool,
        /// The priority in the queue: higher ones go first. Above 0 needs a maintainer.
        #[schema("examples": [0])]
        nullable(Priority::default()) priority: Priority,
    }
}

form! {
    /// A claim of any environment of a pipeline.
    #[schema("examples": [{ "labels": { "size": "large" }, "context": "trying the API", "ttlSeconds": 60 }])]
    pub struct ClaimAnyForm as "ClaimAnyRequest" {
        flatten claim: ClaimForm,
        /// Labels that the environment must have; if there are none, any environment will do.
        #[schema("examples": [{ "size": "large" }])]
        optional labels: Labels,
    }
}

form! {
    /// What to deploy.
    #[schema("examples": [{ "commitId": "c0ffee1" }])]
    pub struct DeployForm as "DeployRequest" {
        /// The commit, which steps get as `LOCKKEEPER_COMMIT`.
        required commit_id: CommitId,
        /// How long to wait for the deployment to end: the answer is 200 if it ends in time.
        #[schema("examples": [30])]
        nullable wait_seconds: WaitSeconds,
        /// The caller's fencing token. Refused if it differs from the session's.
        #[schema("examples": [42])]
        nullable fencing_token: FencingToken,
    }
}

form! {
    /// A heartbeat. May be empty: the path names the session.
    #[schema("examples": [{}])]
    pub struct HeartbeatForm as "HeartbeatRequest" {
        /// The caller's fencing token. Refused if it differs from the session's.
        #[schema("examples": [42])]
        nullable fencing_token: FencingToken,
    }
}

type PriorityNumber = Integer<{ *Priority::RANGE.start() }, { *Priority::RANGE.end() }>;

impl Form for Priority {
    fn read(element: &Element<'_>, reader: &mut Reader) -> Option<Self> {
        Priority::new(PriorityNumber::read(element, reader)?.get()).ok()
    }

    fn schema(schemas: &mut Schemas) -> Value {
        PriorityNumber::schema(schemas)
    }
}

impl ToJson for Priority {
    fn to_json(&self) -> Value {
        json!(self.get())
    }
}
