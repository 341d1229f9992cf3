//! Records that belong to no shard: that of the cluster, and one per node.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::shard::Version;
use crate::store::record::{self, Record, RecordError};

/// Written by the node that comes first, or by an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterRecord {
    /// The format of everything that lies in the shards.
    pub format: u32,
    /// Into how many shards the organizations are divided.
    pub shards: NonZeroU16,
    /// Tells the key that all nodes must have from others.
    pub key: u64,
    pub state: ClusterState,
}

/// Whether nodes may serve a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterState {
    Ready,
    /// An import fills its shards, and has not finished: whatever lies in them is not the whole.
    Filling {
        /// Drawn at random by each attempt, so that only one can finish.
        run: u128,
    },
    /// Its secrets are being sealed under `key`; some are still under the one of this hash.
    Rotating {
        from: u64,
    },
}

/// A node, which writes its record every few seconds: that it changes says that the node lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    pub node: String,
    /// Where other nodes reach it.
    pub url: String,
    /// The version of its program.
    pub program: String,
    /// When its record was last written.
    pub version: Version,
}

impl ClusterRecord {
    pub fn encode(&self) -> Vec<u8> {
        let Self { format, shards, key, state } = *self;
        let before = ClusterV1 { format, shards, key };
        match state {
            // Programs that know no other state read this one, and refuse the others.
            ClusterState::Ready => record::encode(&before),
            ClusterState::Filling { .. } | ClusterState::Rotating { .. } => {
                record::encode(&ClusterV2 { before, state })
            }
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let ClusterV2 { before: ClusterV1 { format, shards, key }, state } = record::decode(bytes)?;
        Ok(Self { format, shards, key, state })
    }
}

impl NodeRecord {
    pub fn encode(&self) -> Vec<u8> {
        record::encode(&NodeV1 { url: self.url.clone(), program: self.program.clone() })
    }

    pub fn decode(node: &str, version: Version, bytes: &[u8]) -> Result<Self, RecordError> {
        let NodeV1 { url, program } = record::decode(bytes)?;
        Ok(Self { node: node.to_owned(), url, program, version })
    }
}

#[derive(Serialize, Deserialize)]
struct ClusterV1 {
    format: u32,
    shards: NonZeroU16,
    key: u64,
}

impl Record<'_> for ClusterV1 {
    const KIND: &'static str = "cluster";
}

#[derive(Serialize, Deserialize)]
struct ClusterV2 {
    before: ClusterV1,
    state: ClusterState,
}

impl Record<'_> for ClusterV2 {
    const KIND: &'static str = "cluster";
    const VERSION: u8 = 2;

    fn read_older(_: u8, form: &[u8]) -> Result<Self, RecordError> {
        Ok(Self { before: record::decode_form::<Self, _>(form)?, state: ClusterState::Ready })
    }
}

#[derive(Serialize, Deserialize)]
struct NodeV1 {
    url: String,
    program: String,
}

impl Record<'_> for NodeV1 {
    const KIND: &'static str = "node";
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        let shards = NonZeroU16::new(16).unwrap();
        let states =
            [ClusterState::Ready, ClusterState::Filling { run: u128::MAX }, ClusterState::Rotating { from: 7 }];
        for (state, version) in states.into_iter().zip([1, 2, 2]) {
            let cluster = ClusterRecord { format: 4, shards, key: u64::MAX, state };
            assert_eq!(ClusterRecord::decode(&cluster.encode()), Ok(cluster));
            assert_eq!(cluster.encode()[0], version);
        }
        let (url, program) = ("http://n1:8080".to_owned(), "1.2.3".to_owned());
        let node = NodeRecord { node: "n1".to_owned(), url, program, version: Version(7) };
        assert_eq!(NodeRecord::decode("n1", Version(7), &node.encode()), Ok(node));
        assert!(ClusterRecord::decode(b"").is_err() && NodeRecord::decode("n1", Version(7), b"\xff").is_err());
    }
}
