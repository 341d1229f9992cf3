//! Under which keys an environment lies in the store. Identifiers contain no `/`, so no key is a prefix of another's.

use crate::domain::{ApprovalId, DeploymentId, EnvironmentKey, IdSeed, Identifier, PipelineKey, Ticket};

/// `e/{organization}/{pipeline}/{environment}`
pub fn environment(key: &EnvironmentKey) -> Vec<u8> {
    path(b"e/", &key.pipeline, &[key.name.as_str().as_bytes()])
}

/// What all environments of a pipeline begin with.
pub fn environments_of(pipeline: &PipelineKey) -> Vec<u8> {
    path(b"e/", pipeline, &[b""])
}

/// `d/{organization}/{pipeline}/{environment}`: what a file last declared of it.
pub fn declaration(key: &EnvironmentKey) -> Vec<u8> {
    path(b"d/", &key.pipeline, &[key.name.as_str().as_bytes()])
}

/// `h/{organization}/{pipeline}/{environment}/{page, big-endian}`: pages of the history sort as they count.
pub fn page(key: &EnvironmentKey, number: u64) -> Vec<u8> {
    path(b"h/", &key.pipeline, &[key.name.as_str().as_bytes(), &number.to_be_bytes()])
}

/// `q/{organization}/{pipeline}/{environment}/{ticket}`: who waits for this environment.
pub fn waiter(key: &EnvironmentKey, ticket: Ticket) -> Vec<u8> {
    path(b"q/", &key.pipeline, &[key.name.as_str().as_bytes(), &ticket.0.to_be_bytes()])
}

/// What all who wait for an environment begin with.
pub fn waiters_of(key: &EnvironmentKey) -> Vec<u8> {
    path(b"q/", &key.pipeline, &[key.name.as_str().as_bytes(), b""])
}

/// What all who wait for an environment begin with, whichever it is.
pub const WAITERS: &[u8] = b"q/";

/// `p/{organization}/{pipeline}/{ticket}`: who waits for any environment of a pipeline.
pub fn outsider(pipeline: &PipelineKey, ticket: Ticket) -> Vec<u8> {
    path(b"p/", pipeline, &[&ticket.0.to_be_bytes()])
}

/// What all who wait for any environment begin with.
pub const OUTSIDERS: &[u8] = b"p/";

/// `i/{ticket}`: where the record of a session lies that was queued under this ticket.
pub fn pointer(ticket: Ticket) -> Vec<u8> {
    [b"i/".as_slice(), &ticket.0.to_be_bytes()].concat()
}

/// `g/{ticket}`: a session that ended in a queue.
pub fn left(ticket: Ticket) -> Vec<u8> {
    [LEFT, &ticket.0.to_be_bytes()].concat()
}

/// What all sessions that ended in a queue begin with.
pub const LEFT: &[u8] = b"g/";

/// `l/{organization}/{pipeline}/{environment}`: that something of it runs out by itself.
pub fn wake(key: &EnvironmentKey) -> Vec<u8> {
    path(b"l/", &key.pipeline, &[key.name.as_str().as_bytes()])
}

/// What all environments begin with of which something runs out by itself.
pub const WAKES: &[u8] = b"l/";

/// `D/{organization}/{seed, inverted}`: a deployment. The newest comes first.
pub fn deployment(organization: &Identifier, id: DeploymentId) -> Vec<u8> {
    seeded(DEPLOYMENTS, organization, newest_first(id.0))
}

/// What all deployments begin with, whosever they are.
pub const DEPLOYMENTS: &[u8] = b"D/";

/// Whose deployment lies under this key.
pub fn organization_of_deployment(key: &[u8]) -> Option<Identifier> {
    let organization = key.strip_prefix(DEPLOYMENTS)?.split(|byte| *byte == b'/').next()?;
    Identifier::parse(std::str::from_utf8(organization).ok()?).ok()
}

/// What all deployments of an organization begin with.
pub fn deployments_of(organization: &Identifier) -> Vec<u8> {
    [DEPLOYMENTS, organization.as_str().as_bytes(), b"/"].concat()
}

/// `b/{organization}/{seed}`: what the stages of a deployment do.
pub fn blueprint(organization: &Identifier, id: DeploymentId) -> Vec<u8> {
    seeded(b"b/", organization, id.0)
}

/// `A/{organization}/{seed, inverted}`: an approval. The newest comes first.
pub fn approval(organization: &Identifier, id: ApprovalId) -> Vec<u8> {
    seeded(b"A/", organization, newest_first(id.0))
}

/// What all approvals of an organization begin with.
pub fn approvals_of(organization: &Identifier) -> Vec<u8> {
    [b"A/", organization.as_str().as_bytes(), b"/"].concat()
}

/// `a/{organization}/{seed}`: which approvals there are of a deployment.
pub fn approvals_of_deployment(organization: &Identifier, id: DeploymentId) -> Vec<u8> {
    seeded(b"a/", organization, id.0)
}

/// `r/{organization}/{pipeline}/{environment}`: that a deployment here has not ended.
pub fn unfinished(key: &EnvironmentKey) -> Vec<u8> {
    path(b"r/", &key.pipeline, &[key.name.as_str().as_bytes()])
}

/// What all environments begin with where a deployment has not ended.
pub const UNFINISHED: &[u8] = b"r/";

/// The environment in a key of this kind, whatever comes after its name.
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

/// Seeds sort by time; so inverted they sort the other way round.
fn newest_first(seed: IdSeed) -> IdSeed {
    IdSeed(seed.0.map(|byte| !byte))
}

fn seeded(kind: &[u8], organization: &Identifier, seed: IdSeed) -> Vec<u8> {
    [kind, organization.as_str().as_bytes(), b"/", &seed.0].concat()
}

fn path(kind: &[u8], pipeline: &PipelineKey, rest: &[&[u8]]) -> Vec<u8> {
    let (organization, pipeline) = (pipeline.organization.as_str(), pipeline.pipeline.as_str());
    let length = kind.len() + organization.len() + 1 + pipeline.len() + rest.iter().map(|p| p.len() + 1).sum::<usize>();
    let mut key = Vec::with_capacity(length);
    key.extend_from_slice(kind);
    key.extend_from_slice(organization.as_bytes());
    key.push(b'/');
    key.extend_from_slice(pipeline.as_bytes());
    for part in rest {
        key.push(b'/');
        key.extend_from_slice(part);
    }
    key
}
