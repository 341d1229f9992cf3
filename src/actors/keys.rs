//! Under which keys an environment lies in the store. Identifiers contain no `/`, so no key is a prefix of another's.

use crate::domain::{EnvironmentKey, Identifier, PipelineKey, Ticket};

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
