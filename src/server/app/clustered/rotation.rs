//! How a rotation of the master key changes the record of the cluster: the rule, pure.
//!
//! The record names both keys and the run of the rotation that is under way. Each step of a rotation is done only while the
//! record has its run. A rotation that is started with the same two keys takes over: with its own run in the record, and in
//! its own direction, so that the two keys exchanged revert what the earlier one has done.

use super::operating::ClusterError;
use crate::moving::NotReady;
use store::FORMAT_NUMBER;
use store::engine::{ClusterRecord, ClusterState};

/// The hashes of both keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHashes {
    pub old: u64,
    pub new: u64,
}

/// Which of the two keys open something in the shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    pub under_old: bool,
    pub under_new: bool,
}

/// The record with which this run begins, in the place of the one that was found; `None` if the cluster has the new key.
pub fn begun(found: &ClusterRecord, keys: KeyHashes, run: u128) -> Result<Option<ClusterRecord>, ClusterError> {
    let KeyHashes { old, new } = keys;
    if found.format != FORMAT_NUMBER {
        return Err(NotReady::Format { found: found.format }.into());
    }
    let begun = ClusterRecord { key: new, state: ClusterState::Rotating { from: old, run: Some(run) }, ..*found };
    match found.state {
        ClusterState::Filling { .. } => Err(NotReady::Filling.into()),
        ClusterState::Rotating { from, .. } if [(old, new), (new, old)].contains(&(from, found.key)) => Ok(Some(begun)),
        ClusterState::Rotating { .. } => Err(ClusterError::OtherKeys),
        ClusterState::Ready | ClusterState::Filled { .. } if found.key == new => Ok(None),
        ClusterState::Ready | ClusterState::Filled { .. } if found.key != old => Err(NotReady::Key.into()),
        ClusterState::Ready | ClusterState::Filled { .. } => Ok(Some(begun)),
    }
}

/// The record when everything is under the new key.
pub fn done(begun: &ClusterRecord) -> ClusterRecord {
    ClusterRecord { state: ClusterState::Ready, ..*begun }
}

/// The record with which a rotation stops that has changed nothing itself; `None` if an earlier one has left some secrets under
/// each of the keys: then no node can open all of them.
pub fn stopped(found: &ClusterRecord, keys: KeyHashes, sealed: Sealed) -> Option<ClusterRecord> {
    let ready = |key| Some(ClusterRecord { key, state: ClusterState::Ready, ..*found });
    match sealed {
        _ if found.state.is_ready() => Some(*found),
        Sealed { under_new: false, .. } => ready(keys.old),
        Sealed { under_old: false, .. } => ready(keys.new),
        Sealed { under_old: true, under_new: true } => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::num::NonZeroU16;

    use super::*;

    const KEYS: KeyHashes = KeyHashes { old: 1, new: 2 };
    const EXCHANGED: KeyHashes = KeyHashes { old: 2, new: 1 };

    fn record(key: u64, state: ClusterState) -> ClusterRecord {
        ClusterRecord { format: FORMAT_NUMBER, shards: NonZeroU16::MIN, key, state }
    }

    fn rotating(from: u64, key: u64, run: impl Into<Option<u128>>) -> ClusterRecord {
        record(key, ClusterState::Rotating { from, run: run.into() })
    }

    #[test]
    fn a_rotation_begins_on_a_cluster_with_its_old_key() {
        for state in [ClusterState::Ready, ClusterState::Filled { run: 5 }] {
            assert_eq!(begun(&record(1, state), KEYS, 7).unwrap(), Some(rotating(1, 2, 7)));
            assert_eq!(begun(&record(2, state), KEYS, 7).unwrap(), None, "it has the new key");
            let refused = begun(&record(3, state), KEYS, 7);
            assert!(matches!(refused, Err(ClusterError::NotReady(NotReady::Key))));
        }
        let refused = begun(&record(1, ClusterState::Filling { run: 5 }), KEYS, 7);
        assert!(matches!(refused, Err(ClusterError::NotReady(NotReady::Filling))));
        let newer = ClusterRecord { format: FORMAT_NUMBER + 1, ..record(1, ClusterState::Ready) };
        assert!(matches!(begun(&newer, KEYS, 7), Err(ClusterError::NotReady(NotReady::Format { .. }))));
    }

    #[test]
    fn the_same_keys_take_over_and_the_exchanged_ones_revert() {
        for earlier in [None, Some(5)] {
            let interrupted = rotating(1, 2, earlier);
            assert_eq!(begun(&interrupted, KEYS, 7).unwrap(), Some(rotating(1, 2, 7)));
            assert_eq!(begun(&interrupted, EXCHANGED, 7).unwrap(), Some(rotating(2, 1, 7)));
            // And back again.
            assert_eq!(begun(&rotating(2, 1, 7), KEYS, 8).unwrap(), Some(rotating(1, 2, 8)));
            for (old, new) in [(1, 3), (3, 2), (3, 1), (2, 3), (3, 4)] {
                let other = begun(&interrupted, KeyHashes { old, new }, 7);
                assert!(matches!(other, Err(ClusterError::OtherKeys)), "{old} {new}");
            }
        }
    }

    #[test]
    fn a_rotation_ends_with_the_key_that_everything_is_under() {
        assert_eq!(done(&rotating(1, 2, 7)), record(2, ClusterState::Ready));
        let sealed = |under_old, under_new| Sealed { under_old, under_new };
        let filled = record(1, ClusterState::Filled { run: 5 });
        assert_eq!(stopped(&filled, KEYS, sealed(true, true)), Some(filled), "as it was found");
        let ready = |key| Some(record(key, ClusterState::Ready));
        let interrupted = rotating(1, 2, 5);
        assert_eq!(stopped(&interrupted, KEYS, sealed(true, false)), ready(1));
        assert_eq!(stopped(&interrupted, KEYS, sealed(false, true)), ready(2));
        assert_eq!(stopped(&interrupted, KEYS, sealed(false, false)), ready(1));
        assert_eq!(stopped(&interrupted, KEYS, sealed(true, true)), None);
        assert_eq!(stopped(&interrupted, EXCHANGED, sealed(false, true)), ready(1), "nothing was changed");
    }
}
