//! Owns what an operator asks of a member of etcd: who leads, how much room there is, and to forget, to tidy up, to go on.

use std::net::SocketAddr;
use std::time::Duration;

use prost::Message;

use crate::wire::etcd_messages::{
    ALARM_DEACTIVATE, ALARM_GET, ALARM_NOSPACE, AlarmMember, AlarmRequest, AlarmResponse, CompactionRequest,
    DeleteRangeRequest, KeyValue, Nothing, PutRequest, RangeRequest, RangeResponse, StatusResponse,
};
use crate::wire::grpc::{Channel, GrpcError};

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
