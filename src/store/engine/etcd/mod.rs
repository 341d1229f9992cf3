//! The engine over etcd's own protocol: gRPC of version 3. The dozen messages it needs are declared by hand.
//!
//! Each line uses only those above it:
//!
//! - `messages`: requests and answers, and the meaning of etcd's errors; `keys`: the keys of a shard; all pure
//! - `members`: the members of the cluster, one connection each, with TLS and a token
//! - `probe`: whether the members are set up for us
//! - this file: the engine itself

#[cfg(test)]
pub mod fixture;
mod keys;
mod members;
mod messages;
mod probe;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tonic::Status;

use self::keys::Keys;
use self::members::Members;
use self::messages::{
    ALARM, ALARM_NOSPACE, AlarmRequest, AlarmResponse, COMPACT, COMPARE_MOD_REVISION, COMPARE_VALUE, CompactionRequest,
    Compare, CompareWith, DeleteRangeRequest, Done, KeyValue, Op, PutRequest, RANGE, RangeRequest, RangeResponse,
    STATUS, StatusRequest, StatusResponse, TXN, TxnRequest, TxnResponse, is_forgotten, is_forgotten_text, meaning,
};
use self::probe::{MAX_REQUEST_BYTES, MAX_TXN_OPS};
use crate::batch::Changes;
use crate::contract::{StoreError, end_of_prefix};
use crate::engine::connection::EngineTls;
use crate::engine::contract::{Engine, EngineError, Limits, Pairs, Room};
use crate::engine::membership::{ClusterRecord, NodeRecord};
use crate::engine::shard::{Shard, Version, resolve};

pub use self::members::Credentials;

/// A member that has not answered within this time may be paused, and the next one is asked. The owner of a shard needs
/// an answer within four seconds, enough for two attempts.
const ANSWER_WITHIN: Duration = Duration::from_millis(1500);
/// For reading a page, which may have a hundred megabytes.
const PAGE_WITHIN: Duration = Duration::from_secs(30);
/// etcd 3.4 counts all remaining keys for each page, so pages are large.
const PAGE_KEYS: i64 = 20_000;
/// Old versions are kept for a minute, in which most shards are copied in one attempt.
const COPY_ATTEMPTS: u32 = 5;
/// Room for the rest of a transaction: the comparison, the record, and the read of the record.
const ENVELOPE_BYTES: usize = 64 * 1024;

pub struct EtcdSettings {
    /// `http://host:2379` or `https://…`, one per member.
    pub members: Vec<String>,
    /// The prefix of all keys.
    pub prefix: String,
    /// Required for `https`.
    pub tls: Option<EngineTls>,
    pub credentials: Option<Credentials>,
    /// etcd's `--quota-backend-bytes`, which etcd does not report.
    pub quota_bytes: u64,
}

pub struct Etcd {
    members: Members,
    keys: Keys,
    quota_bytes: u64,
}

impl Etcd {
    /// Connects on the first request. Fails if the settings contradict each other.
    pub fn new(settings: EtcdSettings) -> Result<Etcd, EngineError> {
        let EtcdSettings { members, prefix, tls, credentials, quota_bytes } = settings;
        let members = Members::new(&members, tls.as_ref(), credentials)?;
        Ok(Etcd { members, keys: Keys::new(&prefix), quota_bytes })
    }

    fn node(&self, found: &KeyValue) -> Result<NodeRecord, EngineError> {
        let name = self.keys.name(&found.key);
        let name = name.ok_or_else(|| unreadable(format!("{:?} is no node", found.key.escape_ascii())))?;
        let decoded = NodeRecord::decode(name, version(found.mod_revision), &found.value);
        decoded.map_err(|error| unreadable(error.to_string()))
    }

    fn shard(&self, found: &KeyValue) -> Result<Shard, EngineError> {
        let number = self.keys.number(&found.key);
        let number = number.ok_or_else(|| unreadable(format!("{:?} is no shard", found.key.escape_ascii())))?;
        Shard::decode(number, version(found.mod_revision), &found.value).map_err(|error| unreadable(error.to_string()))
    }

    async fn copy_once(&self, number: u16) -> Result<Option<(Shard, Pairs)>, EngineError> {
        let question = RangeRequest { key: self.keys.record(number), ..RangeRequest::default() };
        let found = self.range(question, ANSWER_WITHIN).await?;
        let Some(shard) = found.kvs.first().map(|found| self.shard(found)).transpose()? else { return Ok(None) };
        let pairs = self.load(number, shard.version).await?;
        Ok(Some((shard, pairs)))
    }

    async fn range(&self, question: RangeRequest, within: Duration) -> Result<RangeResponse, EngineError> {
        self.members.ask(RANGE, question, within).await.map_err(|status| meaning(&status))
    }

    /// Writes if this is still the cluster's record; otherwise reads the record.
    async fn if_cluster_is(
        &self,
        seen: &ClusterRecord,
        writes: Vec<Op>,
        within: Duration,
    ) -> Result<TxnResponse, EngineError> {
        let with = Some(CompareWith::Value(seen.encode()));
        let compare = Compare { target: COMPARE_VALUE, key: self.keys.cluster(), with };
        let question = write_if(compare, writes.into_iter());
        self.members.ask(TXN, question, within).await.map_err(|status| meaning(&status))
    }

    async fn load_at(&self, number: u16, revision: i64) -> Result<Pairs, Status> {
        let prefix = self.keys.pairs(number);
        let range_end = end_of_prefix(&prefix);
        let mut pairs = Pairs::new();
        let mut from = prefix.clone();
        loop {
            let page = RangeRequest { key: from, range_end: range_end.clone(), limit: PAGE_KEYS, revision };
            let page: RangeResponse = self.members.ask(RANGE, page, PAGE_WITHIN).await?;
            let Some(last) = page.kvs.last().filter(|_| page.more).map(|last| last.key.clone()) else {
                pairs.extend(page.kvs.into_iter().map(|pair| without(&prefix, pair)));
                return Ok(pairs);
            };
            pairs.extend(page.kvs.into_iter().map(|pair| without(&prefix, pair)));
            from = [last.as_slice(), &[0]].concat();
        }
    }

    /// The newest revision, if the shard's record still has this version: the contents are then unchanged too.
    async fn unchanged_since(&self, number: u16, at: Version) -> Result<Option<i64>, EngineError> {
        let question = RangeRequest { key: self.keys.record(number), ..RangeRequest::default() };
        let found = self.range(question, ANSWER_WITHIN).await?;
        let is_unchanged = found.kvs.first().is_some_and(|record| version(record.mod_revision) == at);
        Ok(found.header.filter(|_| is_unchanged).map(|header| header.revision))
    }
}

fn unreadable(reason: String) -> EngineError {
    EngineError::Refused(StoreError::Read(reason))
}

fn transaction(keys: &Keys, compared: Version, record: &Shard, changes: &Changes) -> TxnRequest {
    let key = keys.record(record.number);
    let pairs = keys.pairs(record.number);
    let put_record = Op::Put(PutRequest { key: key.clone(), value: record.encode() });
    let write_pair = |(key, value): (&Vec<u8>, &Option<Vec<u8>>)| {
        let key = [&pairs[..], key].concat();
        match value {
            Some(value) => Op::Put(PutRequest { key, value: value.clone() }),
            None => delete(key),
        }
    };
    let writes = std::iter::once(put_record).chain(changes.iter().map(write_pair));
    if_unchanged(key, compared, writes)
}

/// Writes if the key still has this version; otherwise reads it.
fn if_unchanged(key: Vec<u8>, compared: Version, writes: impl Iterator<Item = Op>) -> TxnRequest {
    let with = Some(CompareWith::ModRevision(revision(compared)));
    write_if(Compare { target: COMPARE_MOD_REVISION, key, with }, writes)
}

/// Writes if the comparison holds; otherwise reads its key.
fn write_if(compare: Compare, writes: impl Iterator<Item = Op>) -> TxnRequest {
    let key = compare.key.clone();
    let read = Op::Range(RangeRequest { key, ..RangeRequest::default() });
    TxnRequest { compare: vec![compare], success: writes.map(Op::into).collect(), failure: vec![read.into()] }
}

fn delete(key: Vec<u8>) -> Op {
    Op::DeleteRange(DeleteRangeRequest { key, range_end: Vec::new() })
}

fn delete_all(prefix: Vec<u8>) -> Op {
    let range_end = end_of_prefix(&prefix);
    Op::DeleteRange(DeleteRangeRequest { key: prefix, range_end })
}

/// The pair read after a failed comparison.
fn found(answer: TxnResponse) -> Option<KeyValue> {
    answer.responses.into_iter().find_map(|response| response.range?.kvs.into_iter().next())
}

/// etcd's revisions are never negative.
fn version(revision: i64) -> Version {
    Version(u64::try_from(revision).unwrap_or_default())
}

fn revision(version: Version) -> i64 {
    i64::try_from(version.0).unwrap_or(i64::MAX)
}

impl Engine for Etcd {
    async fn probe(&self) -> Result<(), EngineError> {
        probe::probe(&self.members, &self.keys).await
    }

    fn limits(&self) -> Limits {
        // One operation is needed for the record.
        Limits { changes: MAX_TXN_OPS - 1, bytes: MAX_REQUEST_BYTES - ENVELOPE_BYTES }
    }

    async fn found(&self, cluster: &ClusterRecord) -> Result<ClusterRecord, EngineError> {
        let key = self.keys.cluster();
        let put = Op::Put(PutRequest { key: key.clone(), value: cluster.encode() });
        let question = if_unchanged(key, Version(0), std::iter::once(put));
        let answer: TxnResponse =
            self.members.ask(TXN, question, ANSWER_WITHIN).await.map_err(|status| meaning(&status))?;
        match found(answer) {
            None => Ok(*cluster),
            Some(found) => ClusterRecord::decode(&found.value).map_err(|error| unreadable(error.to_string())),
        }
    }

    async fn cluster(&self) -> Result<Option<ClusterRecord>, EngineError> {
        let question = RangeRequest { key: self.keys.cluster(), ..RangeRequest::default() };
        let found = self.range(question, ANSWER_WITHIN).await?;
        let decoded = found.kvs.first().map(|found| ClusterRecord::decode(&found.value)).transpose();
        decoded.map_err(|error| unreadable(error.to_string()))
    }

    async fn replace(&self, seen: &ClusterRecord, next: Option<&ClusterRecord>) -> Result<bool, EngineError> {
        let key = self.keys.cluster();
        let next = next.map(ClusterRecord::encode);
        let write = match &next {
            Some(next) => Op::Put(PutRequest { key: key.clone(), value: next.clone() }),
            None => delete(key.clone()),
        };
        let answer = self.if_cluster_is(seen, vec![write], ANSWER_WITHIN).await?;
        Ok(answer.succeeded || found(answer).map(|found| found.value) == next)
    }

    /// A full etcd accepts transactions that only delete. Only the last one decides; the others keep it short.
    async fn clear(&self, seen: &ClusterRecord) -> Result<bool, EngineError> {
        for Shard { number, .. } in self.shards().await? {
            let shard = vec![delete_all(self.keys.pairs(number)), delete(self.keys.record(number))];
            self.if_cluster_is(seen, shard, PAGE_WITHIN).await?;
        }
        let [pairs, records] = [self.keys.all_pairs(), self.keys.records()].map(delete_all);
        let all = vec![pairs, records, delete(self.keys.cluster())];
        let answer = self.if_cluster_is(seen, all, PAGE_WITHIN).await?;
        let revision = answer.header.as_ref().map_or(0, |header| header.revision);
        let is_clear = answer.succeeded || found(answer).is_none();
        if is_clear && let Err(error) = self.forget(version(revision)).await {
            tracing::debug!(%error, "cannot forget old versions; the next node does");
        }
        Ok(is_clear)
    }

    async fn announce(&self, node: &NodeRecord) -> Result<(), EngineError> {
        let put = Op::Put(PutRequest { key: self.keys.node(&node.node), value: node.encode() });
        let question = TxnRequest { success: vec![put.into()], ..TxnRequest::default() };
        let answer: Result<TxnResponse, _> = self.members.ask(TXN, question, ANSWER_WITHIN).await;
        answer.map(drop).map_err(|status| meaning(&status))
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, EngineError> {
        let key = self.keys.nodes();
        let range_end = end_of_prefix(&key);
        let found = self.range(RangeRequest { key, range_end, ..RangeRequest::default() }, ANSWER_WITHIN).await?;
        found.kvs.iter().map(|found| self.node(found)).collect()
    }

    async fn shards(&self) -> Result<Vec<Shard>, EngineError> {
        let key = self.keys.records();
        let range_end = end_of_prefix(&key);
        let found = self.range(RangeRequest { key, range_end, ..RangeRequest::default() }, ANSWER_WITHIN).await?;
        found.kvs.iter().map(|found| self.shard(found)).collect()
    }

    async fn write(
        &self,
        compared: Version,
        record: &Shard,
        changes: &Changes,
    ) -> Result<Option<Version>, EngineError> {
        let transaction = transaction(&self.keys, compared, record, changes);
        let answer: TxnResponse =
            self.members.ask_once(TXN, transaction, ANSWER_WITHIN).await.map_err(|status| meaning(&status))?;
        if answer.succeeded {
            return Ok(Some(version(answer.header.map_or(0, |header| header.revision))));
        }
        let found = found(answer).map(|found| self.shard(&found)).transpose()?;
        Ok(resolve(record, found.as_ref()))
    }

    async fn load(&self, number: u16, at: Version) -> Result<Pairs, EngineError> {
        match self.load_at(number, revision(at)).await {
            // An operator may compact everything but the newest version, while the record of a shard without an owner
            // keeps its old version.
            Err(status) if is_forgotten(&status) => match self.unchanged_since(number, at).await? {
                Some(newest) => self.load_at(number, newest).await.map_err(|status| meaning(&status)),
                None => Err(meaning(&status)),
            },
            loaded => loaded.map_err(|status| meaning(&status)),
        }
    }

    /// Retries with a newer version if this one is forgotten during the load.
    async fn copy(&self, number: u16) -> Result<Option<(Shard, Pairs)>, EngineError> {
        for _ in 1..COPY_ATTEMPTS {
            match self.copy_once(number).await {
                Err(EngineError::Refused(StoreError::Engine(reason))) if is_forgotten_text(&reason) => {}
                copied => return copied,
            }
        }
        self.copy_once(number).await
    }

    async fn room(&self) -> Result<Room, EngineError> {
        let refused = |status| meaning(&status);
        let status: StatusResponse =
            self.members.ask(STATUS, StatusRequest {}, ANSWER_WITHIN).await.map_err(refused)?;
        let alarms: AlarmResponse = self.members.ask(ALARM, AlarmRequest {}, ANSWER_WITHIN).await.map_err(refused)?;
        Ok(Room {
            // Includes free pages: etcd compares this size with its quota.
            used_bytes: u64::try_from(status.db_size).unwrap_or_default(),
            quota_bytes: self.quota_bytes,
            is_exhausted: alarms.alarms.iter().any(|member| member.alarm == ALARM_NOSPACE),
        })
    }

    async fn forget(&self, before: Version) -> Result<(), EngineError> {
        let question = CompactionRequest { revision: revision(before) };
        match self.members.ask::<_, Done>(COMPACT, question, ANSWER_WITHIN).await {
            Ok(Done {}) => Ok(()),
            Err(status) if is_forgotten(&status) => Ok(()),
            Err(status) => Err(meaning(&status)),
        }
    }
}

fn without(prefix: &[u8], KeyValue { mut key, value, .. }: KeyValue) -> (Vec<u8>, Vec<u8>) {
    key.drain(..prefix.len());
    (key, value)
}
