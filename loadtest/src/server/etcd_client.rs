//! Owns what an operator asks of a member of etcd: who leads, how much room there is, to forget, to tidy up, to go on; and
//! the records that the nodes of a cluster keep there of their shards.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use prost::Message;

use crate::wire::etcd::{
    ALARM_DEACTIVATE, ALARM_GET, ALARM_NOSPACE, AlarmMember, AlarmRequest, AlarmResponse, Channel, CompactionRequest,
    DeleteRangeRequest, GrpcError, KeyValue, Nothing, PutRequest, RangeRequest, RangeResponse, StatusResponse,
};

/// Its disk may be busy with other things; without a leader it says so itself, much sooner.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    #[error("etcd at {0} does not answer")]
    Silent(SocketAddr),
    #[error("etcd has no leader")]
    NoLeader,
    #[error("etcd: {0}")]
    Failed(#[from] GrpcError),
}

impl EtcdError {
    pub fn is_out_of_room(&self) -> bool {
        matches!(self, Self::Failed(GrpcError::Status(_, message)) if message.contains("database space exceeded"))
    }
}

/// A connection to one member.
pub struct EtcdClient {
    channel: Channel,
    address: SocketAddr,
}

impl EtcdClient {
    pub async fn connect(address: SocketAddr) -> Result<Self, EtcdError> {
        let opened = tokio::time::timeout(ANSWER_WITHIN, Channel::open(address)).await;
        Ok(Self { channel: opened.map_err(|_| EtcdError::Silent(address))??, address })
    }

    pub async fn status(&mut self) -> Result<StatusResponse, EtcdError> {
        self.ask("/etcdserverpb.Maintenance/Status", &Nothing {}).await
    }

    /// All pairs whose keys begin with this, as a majority has them.
    pub async fn range(&mut self, prefix: &[u8]) -> Result<Vec<KeyValue>, EtcdError> {
        Ok(self.range_with_header(prefix).await?.pairs)
    }

    pub async fn newest_revision(&mut self) -> Result<i64, EtcdError> {
        let answer = self.range_with_header(b"\0nothing").await?;
        Ok(answer.header.map_or(0, |header| header.revision))
    }

    pub async fn put(&mut self, key: &[u8], value: Vec<u8>) -> Result<(), EtcdError> {
        let put = PutRequest { key: key.to_vec(), value };
        self.done("/etcdserverpb.KV/Put", &put).await
    }

    pub async fn delete(&mut self, prefix: &[u8]) -> Result<(), EtcdError> {
        let delete = DeleteRangeRequest { key: prefix.to_vec(), range_end: end_of(prefix) };
        self.done("/etcdserverpb.KV/DeleteRange", &delete).await
    }

    /// Forgets everything that only revisions before this one need.
    pub async fn compact(&mut self, revision: i64) -> Result<(), EtcdError> {
        self.done("/etcdserverpb.KV/Compact", &CompactionRequest { revision }).await
    }

    /// Of this member alone.
    pub async fn defragment(&mut self) -> Result<(), EtcdError> {
        self.done("/etcdserverpb.Maintenance/Defragment", &Nothing {}).await
    }

    /// Lets all members take writes again.
    pub async fn disarm(&mut self) -> Result<(), EtcdError> {
        const ALARM: &str = "/etcdserverpb.Maintenance/Alarm";
        let raised = AlarmRequest { action: ALARM_GET, member_id: 0, alarm: ALARM_NOSPACE };
        let raised: AlarmResponse = self.ask(ALARM, &raised).await?;
        for AlarmMember { member_id, alarm } in raised.alarms {
            let disarm = AlarmRequest { action: ALARM_DEACTIVATE, member_id, alarm };
            self.done(ALARM, &disarm).await?;
        }
        Ok(())
    }

    async fn range_with_header(&mut self, prefix: &[u8]) -> Result<RangeResponse, EtcdError> {
        let range = RangeRequest { key: prefix.to_vec(), range_end: end_of(prefix) };
        self.ask("/etcdserverpb.KV/Range", &range).await
    }

    async fn done(&mut self, path: &str, question: &impl Message) -> Result<(), EtcdError> {
        let Nothing {} = self.ask(path, question).await?;
        Ok(())
    }

    async fn ask<A: Message + Default>(&mut self, path: &str, question: &impl Message) -> Result<A, EtcdError> {
        let method = self.channel.method(path)?;
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.channel.call(&method, question)).await;
        Ok(answer.map_err(|_| EtcdError::Silent(self.address))??)
    }
}

/// The first key behind all that begin with this; a prefix here never ends with the highest byte.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

const PREFIX: &[u8] = b"lk/shard/";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRecord {
    pub epoch: u64,
    /// The name of the node; none if its last owner has left it.
    pub owner: Option<String>,
}

/// Where the record of a shard lies.
pub fn shard_key(shard: u16) -> Vec<u8> {
    [PREFIX, format!("{shard:05}").as_bytes()].concat()
}

/// All that there are, by their numbers.
pub async fn shard_records(etcd: &mut EtcdClient) -> Result<BTreeMap<u16, ShardRecord>, EtcdError> {
    let pairs = etcd.range(PREFIX).await?;
    let number = |key: &[u8]| std::str::from_utf8(key.strip_prefix(PREFIX)?).ok()?.parse().ok();
    Ok(pairs.iter().filter_map(|pair| Some((number(&pair.key)?, decode_shard_record(&pair.value)?))).collect())
}

/// A record begins with its version, the epoch, and the owner with its name first; in postcard's form.
pub fn decode_shard_record(record: &[u8]) -> Option<ShardRecord> {
    let (1, rest) = record.split_first().map(|(version, rest)| (*version, rest))? else { return None };
    let (epoch, rest) = varint(rest)?;
    let (has_owner, rest) = rest.split_first()?;
    if *has_owner == 0 {
        return Some(ShardRecord { epoch, owner: None });
    }
    let (length, rest) = varint(rest)?;
    let name = rest.get(..usize::try_from(length).ok()?)?;
    Some(ShardRecord { epoch, owner: Some(String::from_utf8(name.to_vec()).ok()?) })
}

/// Seven bits in each byte, the lowest first.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let last = bytes.iter().take(9).position(|byte| byte & 0x80 == 0)?;
    let number = bytes[..=last].iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f));
    Some((number, &bytes[last + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_and_owner_are_read_from_a_record() {
        let owned = ShardRecord { epoch: 300, owner: Some("n1".to_owned()) };
        assert_eq!(decode_shard_record(&[1, 0xac, 0x02, 1, 2, b'n', b'1', 9, 9]), Some(owned));
        assert_eq!(decode_shard_record(&[1, 7, 0, 9]), Some(ShardRecord { epoch: 7, owner: None }));
        assert_eq!(decode_shard_record(&[2, 7, 0]), None);
        assert_eq!(decode_shard_record(&[1, 7, 1, 9, b'n']), None);
        assert_eq!(decode_shard_record(b""), None);
    }
}
