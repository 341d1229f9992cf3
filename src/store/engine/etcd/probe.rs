//! Checks whether the etcd members accept requests as large as a group of batches may be. etcd does not report its
//! limits, so each member is sent requests of that size. They write nothing, and involve no other member.

use std::time::Duration;

use tonic::{Code, Status};

use super::keys::Keys;
use super::members::{Member, Members};
use super::messages::{
    COMPARE_MOD_REVISION, Compare, CompareWith, Done, Op, RANGE, RangeRequest, TXN, TxnRequest, meaning,
};
use crate::contract::StoreError;
use crate::engine::EngineError;

/// etcd's `--max-txn-ops`, by default 128.
pub const MAX_TXN_OPS: usize = 4096;
/// etcd's `--max-request-bytes`, by default 1.5 MiB. The largest batch has 1.9 MiB, plus a page of its journal.
pub const MAX_REQUEST_BYTES: usize = 4 * 1024 * 1024;
/// A member receives messages that exceed its limit by up to this much, and only then checks them.
const RECEIVED_BEYOND_BYTES: usize = 512 * 1024;
/// Well above gRPC's overhead for a key.
const AROUND_KEY_BYTES: usize = 1024;
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Fails if a member has lower limits, or if none answers.
pub async fn probe(members: &Members, keys: &Keys) -> Result<(), EngineError> {
    let mut silence = None;
    let mut has_answered = false;
    let mut faults = Vec::new();
    for member in members.all() {
        match missing_flags(members, keys, member).await {
            Ok(flags) if flags.is_empty() => has_answered = true,
            Ok(flags) => faults.push(format!("start the etcd at {} with {}", member.url, flags.join(" "))),
            Err(error @ EngineError::Away(_)) => silence = Some(error),
            Err(error @ (EngineError::Refused(_) | EngineError::Deposed)) => return Err(error),
        }
    }
    if !faults.is_empty() {
        return Err(EngineError::Refused(StoreError::Engine(faults.join("; "))));
    }
    if has_answered { Ok(()) } else { silence.map_or(Ok(()), Err) }
}

async fn missing_flags(members: &Members, keys: &Keys, member: &Member) -> Result<Vec<String>, EngineError> {
    let many = members.ask_at::<_, Done>(member, TXN, many_operations(keys), ANSWER_WITHIN).await;
    let long = members.ask_at::<_, Done>(member, RANGE, long_key(keys), ANSWER_WITHIN).await;
    let too_many = is_refused(many, |status| status.message().contains("too many operations"))?;
    let too_long = is_refused(long, |status| status.code() == Code::ResourceExhausted)?;
    let flags = [
        too_many.then(|| format!("--max-txn-ops={MAX_TXN_OPS}")),
        too_long.then(|| format!("--max-request-bytes={MAX_REQUEST_BYTES}")),
    ];
    Ok(flags.into_iter().flatten().collect())
}

fn is_refused(answer: Result<Done, Status>, is_limit: impl Fn(&Status) -> bool) -> Result<bool, EngineError> {
    match answer {
        Ok(Done {}) => Ok(false),
        Err(status) if is_limit(&status) => Ok(true),
        Err(status) => Err(meaning(&status)),
    }
}

/// Reads that are never executed, because no key has a negative revision.
fn many_operations(keys: &Keys) -> TxnRequest {
    let key = keys.unused();
    let with = Some(CompareWith::ModRevision(-1));
    let compare = Compare { target: COMPARE_MOD_REVISION, key: key.clone(), with };
    let read = Op::Range(RangeRequest { key, ..RangeRequest::default() });
    TxnRequest { compare: vec![compare], success: vec![read.into(); MAX_TXN_OPS], failure: Vec::new() }
}

/// A read of a missing key that is as long as the largest request.
fn long_key(keys: &Keys) -> RangeRequest {
    let mut key = keys.unused();
    key.resize(MAX_REQUEST_BYTES + RECEIVED_BEYOND_BYTES - AROUND_KEY_BYTES, b'.');
    RangeRequest { key, ..RangeRequest::default() }
}
