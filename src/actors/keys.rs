//! Under which keys an environment lies in the store. Identifiers contain no `/`, so no key is a prefix of another's.

use crate::domain::{EnvironmentKey, PipelineKey};

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

/// `h/{organization}/{pipeline}/{environment}/{number, big-endian}`: numbers sort as they count.
pub fn session(key: &EnvironmentKey, number: u64) -> Vec<u8> {
    path(b"h/", &key.pipeline, &[key.name.as_str().as_bytes(), &number.to_be_bytes()])
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
