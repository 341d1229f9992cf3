//! How often an identity token of a CI has been exchanged. Whoever gets hold of one, from a log perhaps, can do the same
//! with it as its job until it ends: so its uses are counted, through restarts too.

use sha2::{Digest, Sha256};

use domain::{Identifier, Timestamp};

/// Of one identity token. A job has one per program that it runs, and renews it now and then.
pub const EXCHANGES_MAX: u32 = 20;
/// Tokens of jobs that an organization has at a time, and identity tokens that are counted: more jobs than run in an hour,
/// few enough to keep in memory.
pub const EXCHANGED_MAX: usize = 20_000;

/// An identity token in an organization.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdentityKey {
    pub organization: Identifier,
    /// SHA-256 of what is signed of it.
    pub hash: [u8; 32],
}

/// SHA-256 of a job's subject, in the words of its CI.
pub type SubjectHash = [u8; 32];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityUse {
    /// How often it was exchanged.
    pub count: u32,
    /// Of the subject that it names; `None` if it was first exchanged before subjects were counted.
    pub subject: Option<SubjectHash>,
    /// When it ends: then nothing has to be counted any more.
    pub until: Timestamp,
}

pub fn hash_of(subject: &str) -> SubjectHash {
    Sha256::digest(subject).into()
}
