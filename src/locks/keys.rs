//! The keys of environments in the store. Identifiers contain no `/`, so no key is a prefix of another.

use domain::{ApprovalId, DeploymentId, EnvironmentKey, IdSeed, Identifier, PipelineKey, Ticket};
use store::keys::{
    APPROVALS, APPROVALS_OF_DEPLOYMENTS, BLUEPRINTS, DECLARED_ENVIRONMENTS, HISTORY, LOG_PARTS, POINTERS,
    organization_in,
};
pub use store::keys::{
    DEPLOYMENTS, DROPPED_LOGS, ENVIRONMENTS, LEFT, NEW_ENVIRONMENTS, POOL_WAITERS, UNFINISHED, WAITERS, WAKES,
};
use store::{Key, key_of};

/// `e/{organization}/{pipeline}/{environment}`
pub fn environment(key: &EnvironmentKey) -> Key {
    of_environment(ENVIRONMENTS, key)
}

/// The prefix of all environments of a pipeline.
pub fn environments_of(pipeline: &PipelineKey) -> Key {
    in_pipeline(ENVIRONMENTS, pipeline, b"")
}

/// The prefix of all environments of an organization.
pub fn environments_in(organization: &Identifier) -> Key {
    key_of(&[ENVIRONMENTS, organization.as_str().as_bytes(), b"/"])
}

/// `d/{organization}/{pipeline}/{environment}`: the configuration that a file last declared.
pub fn declaration(key: &EnvironmentKey) -> Key {
    of_environment(DECLARED_ENVIRONMENTS, key)
}

/// The prefix of all declarations of an organization.
pub fn declarations_in(organization: &Identifier) -> Key {
    key_of(&[DECLARED_ENVIRONMENTS, organization.as_str().as_bytes(), b"/"])
}

/// `h/{organization}/{pipeline}/{environment}/{page, big-endian}`: pages of the history, in order.
pub fn page(key: &EnvironmentKey, number: u64) -> Key {
    in_environment(HISTORY, key, &number.to_be_bytes())
}

/// `q/{organization}/{pipeline}/{environment}/{ticket}`: a waiter for this environment.
pub fn waiter(key: &EnvironmentKey, ticket: Ticket) -> Key {
    in_environment(WAITERS, key, &ticket.0.to_be_bytes())
}

/// The prefix of all waiters for an environment.
pub fn waiters_of(key: &EnvironmentKey) -> Key {
    in_environment(WAITERS, key, b"")
}

/// `p/{organization}/{pipeline}/{ticket}`: a waiter for any environment of a pipeline.
pub fn pool_waiter(pipeline: &PipelineKey, ticket: Ticket) -> Key {
    in_pipeline(POOL_WAITERS, pipeline, &ticket.0.to_be_bytes())
}

/// `i/{ticket}`: points to the record of the session that was queued under this ticket.
pub fn pointer(ticket: Ticket) -> Key {
    key_of(&[POINTERS, &ticket.0.to_be_bytes()])
}

/// `g/{ticket}`: a session that ended in a queue.
pub fn left(ticket: Ticket) -> Key {
    key_of(&[LEFT, &ticket.0.to_be_bytes()])
}

/// `l/{organization}/{pipeline}/{environment}`: when the lock expires automatically.
pub fn wake(key: &EnvironmentKey) -> Key {
    of_environment(WAKES, key)
}

/// `D/{organization}/{seed, inverted}`: a deployment, newest first.
pub fn deployment(organization: &Identifier, id: DeploymentId) -> Key {
    seeded(DEPLOYMENTS, organization, newest_first(id.0))
}

/// The organization of the deployment under this key.
pub fn organization_of_deployment(key: &[u8]) -> Option<Identifier> {
    Identifier::parse(organization_in(DEPLOYMENTS, key)?).ok()
}

/// The prefix of all deployments of an organization.
pub fn deployments_of(organization: &Identifier) -> Key {
    key_of(&[DEPLOYMENTS, organization.as_str().as_bytes(), b"/"])
}

/// `b/{organization}/{seed}`: the blueprint of a deployment: its stages and steps.
pub fn blueprint(organization: &Identifier, id: DeploymentId) -> Key {
    seeded(BLUEPRINTS, organization, id.0)
}

/// `A/{organization}/{seed, inverted}`: an approval, newest first.
pub fn approval(organization: &Identifier, id: ApprovalId) -> Key {
    seeded(APPROVALS, organization, newest_first(id.0))
}

/// The prefix of all approvals of an organization.
pub fn approvals_of(organization: &Identifier) -> Key {
    key_of(&[APPROVALS, organization.as_str().as_bytes(), b"/"])
}

/// `a/{organization}/{seed}`: the ids of a deployment's approvals.
pub fn approvals_of_deployment(organization: &Identifier, id: DeploymentId) -> Key {
    seeded(APPROVALS_OF_DEPLOYMENTS, organization, id.0)
}

/// `n/{organization}/{seed}`: the parts of a deployment's log, in a cluster.
pub fn log_parts(organization: &Identifier, id: DeploymentId) -> Key {
    seeded(LOG_PARTS, organization, id.0)
}

/// `nd/{organization}/{seed}`: the parts of a log whose deployment is no longer kept, until the log store has deleted
/// them.
pub fn dropped_log(organization: &Identifier, id: DeploymentId) -> Key {
    seeded(DROPPED_LOGS, organization, id.0)
}

/// The deployment in the key of a dropped log.
pub fn parse_dropped_log(key: &[u8]) -> Option<(Identifier, DeploymentId)> {
    let (key, seed) = key.strip_prefix(DROPPED_LOGS)?.split_last_chunk::<12>()?;
    let organization = Identifier::parse(std::str::from_utf8(key.strip_suffix(b"/")?).ok()?).ok()?;
    Some((organization, DeploymentId(IdSeed(*seed))))
}

/// `r/{organization}/{pipeline}/{environment}`: marks an environment with an unfinished deployment.
pub fn unfinished(key: &EnvironmentKey) -> Key {
    of_environment(UNFINISHED, key)
}

/// The environment in a key of this kind; more may follow its name.
pub fn parse_environment(key: &[u8], kind: &[u8]) -> Option<EnvironmentKey> {
    let mut parts = key.strip_prefix(kind)?.splitn(4, |byte| *byte == b'/');
    let mut next = || Identifier::parse(std::str::from_utf8(parts.next()?).ok()?).ok();
    let pipeline = PipelineKey { organization: next()?, pipeline: next()? };
    Some(EnvironmentKey { pipeline, name: next()? })
}

/// The pipeline in a key of this kind.
pub fn parse_pipeline(key: &[u8], kind: &[u8]) -> Option<PipelineKey> {
    let mut parts = key.strip_prefix(kind)?.splitn(3, |byte| *byte == b'/');
    let mut next = || Identifier::parse(std::str::from_utf8(parts.next()?).ok()?).ok();
    Some(PipelineKey { organization: next()?, pipeline: next()? })
}

/// Seeds sort by time; inverted seeds sort newest first.
fn newest_first(seed: IdSeed) -> IdSeed {
    IdSeed(seed.0.map(|byte| !byte))
}

fn seeded(kind: &[u8], organization: &Identifier, seed: IdSeed) -> Key {
    key_of(&[kind, organization.as_str().as_bytes(), b"/", &seed.0])
}

fn in_pipeline(kind: &[u8], PipelineKey { organization, pipeline }: &PipelineKey, last: &[u8]) -> Key {
    key_of(&[kind, organization.as_str().as_bytes(), b"/", pipeline.as_str().as_bytes(), b"/", last])
}

fn of_environment(kind: &[u8], key: &EnvironmentKey) -> Key {
    in_pipeline(kind, &key.pipeline, key.name.as_str().as_bytes())
}

fn in_environment(kind: &[u8], EnvironmentKey { pipeline, name }: &EnvironmentKey, last: &[u8]) -> Key {
    let PipelineKey { organization, pipeline } = pipeline;
    let (organization, pipeline, name) = (organization.as_str(), pipeline.as_str(), name.as_str());
    key_of(&[kind, organization.as_bytes(), b"/", pipeline.as_bytes(), b"/", name.as_bytes(), b"/", last])
}
