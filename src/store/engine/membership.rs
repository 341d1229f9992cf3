//! Records that belong to no shard: one for the cluster, and one per node.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::shard::Version;
use crate::record::{self, Record, RecordError};

/// The record of the cluster, written by the first node or by an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterRecord {
    /// The format of the contents of the shards.
    pub format: u32,
    /// Number of shards into which the organizations are divided.
    pub shards: NonZeroU16,
    /// Identifies the key that all nodes must have.
    pub key: u64,
    pub state: ClusterState,
}

/// Whether nodes may serve a cluster. Stored by position, so new states are added at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterState {
    Ready,
    /// An import is filling the shards, so their contents are incomplete.
    Filling {
        /// Drawn at random by each attempt, so that only one can finish.
        run: u128,
    },
    /// The secrets are being resealed under `key`; some are still sealed under the key with the hash `from`.
    Rotating {
        from: u64,
        /// Drawn at random by each rotation, so that only the last one continues. Always set.
        run: Option<u128>,
    },
    /// Ready, and filled by the import of this run. The run is kept so that an import whose last answer was lost can
    /// distinguish its own success from that of another import.
    Filled {
        run: u128,
    },
}

impl ClusterState {
    /// Whether nodes may serve the cluster.
    pub fn is_ready(self) -> bool {
        match self {
            Self::Ready | Self::Filled { .. } => true,
            Self::Filling { .. } | Self::Rotating { .. } => false,
        }
    }
}

/// A node. It rewrites its record every few seconds; each change shows that the node is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    pub node: String,
    /// The address for other nodes.
    pub url: String,
    /// The version of the node's program.
    pub program: String,
    /// Changes with each write of the record.
    pub version: Version,
}

impl ClusterRecord {
    /// Uses the oldest form that can represent the state: records are compared by their bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Self { format, shards, key, state } = *self;
        let before = ClusterV1 { format, shards, key };
        match state {
            // Programs that know no other state can read this one, and refuse the rest.
            ClusterState::Ready => record::encode(&before),
            ClusterState::Filling { run } => record::encode(&ClusterV2 { before, state: StateV2::Filling { run } }),
            ClusterState::Rotating { .. } | ClusterState::Filled { .. } => record::encode(&ClusterV3 { before, state }),
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let ClusterV3 { before: ClusterV1 { format, shards, key }, state } = record::decode(bytes)?;
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
    state: StateV2,
}

#[derive(Serialize, Deserialize)]
enum StateV2 {
    Ready,
    Filling { run: u128 },
}

impl Record<'_> for ClusterV2 {
    const KIND: &'static str = "cluster";
    const VERSION: u8 = 2;
}

#[derive(Serialize, Deserialize)]
struct ClusterV3 {
    before: ClusterV1,
    state: ClusterState,
}

impl Record<'_> for ClusterV3 {
    const KIND: &'static str = "cluster";
    const VERSION: u8 = 3;

    fn read_older(version: u8, form: &[u8]) -> Result<Self, RecordError> {
        if version == ClusterV1::VERSION {
            return Ok(Self { before: record::decode_form::<Self, _>(form)?, state: ClusterState::Ready });
        }
        let ClusterV2 { before, state } = record::decode_form::<Self, _>(form)?;
        let state = match state {
            StateV2::Ready => ClusterState::Ready,
            StateV2::Filling { run } => ClusterState::Filling { run },
        };
        Ok(Self { before, state })
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
    use testkit::format_4::{assert_written_as_format_4, format_4};

    #[test]
    fn records_are_read_as_they_were_written() {
        let shards = NonZeroU16::new(16).unwrap();
        let states = [
            (ClusterState::Ready, 1),
            (ClusterState::Filling { run: u128::MAX }, 2),
            (ClusterState::Rotating { from: 7, run: Some(u128::MAX) }, 3),
            (ClusterState::Filled { run: u128::MAX }, 3),
        ];
        for (state, version) in states {
            let cluster = ClusterRecord { format: 4, shards, key: u64::MAX, state };
            assert_eq!(ClusterRecord::decode(&cluster.encode()), Ok(cluster));
            assert_eq!(cluster.encode()[0], version);
        }
        let (url, program) = ("http://n1:8080".to_owned(), "1.2.3".to_owned());
        let node = NodeRecord { node: "n1".to_owned(), url, program, version: Version(7) };
        assert_eq!(NodeRecord::decode("n1", Version(7), &node.encode()), Ok(node));
        assert!(ClusterRecord::decode(b"").is_err() && NodeRecord::decode("n1", Version(7), b"\xff").is_err());
    }

    /// Records are compared by their bytes, so re-encoding must not change them.
    #[test]
    fn records_of_format_4_are_read_and_written_as_the_same_bytes() {
        let shards = NonZeroU16::new(16).unwrap();
        for (name, state) in [
            ("cluster", ClusterState::Ready),
            ("cluster, being filled", ClusterState::Filling { run: 302 }),
            ("cluster, being rotated", ClusterState::Rotating { from: 301, run: Some(302) }),
            ("cluster, filled", ClusterState::Filled { run: 302 }),
        ] {
            let cluster = ClusterRecord { format: 4, shards, key: 300, state };
            assert_eq!(ClusterRecord::decode(&format_4(name)), Ok(cluster), "{name}");
            assert_written_as_format_4(name, &cluster.encode());
        }
    }
}
