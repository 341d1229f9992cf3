//! Owns the list of faults: what each is called, what it needs, and how soon somebody should be granted something again.

use std::path::PathBuf;

use serde::Deserialize;

/// Where Debian puts it, below a directory that is named after the machine.
const LIBRARIES: &str = "/usr/lib";
const FAKETIME: &str = "faketime/libfaketimeMT.so.1";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterFault {
    KillOwner,
    PauseOwner,
    KillLeader,
    PauseLeader,
    /// The owner and etcd's leader.
    KillBoth,
    PauseBoth,
    CutOwnerFromEtcd,
    CutOwnerFromNodes,
    /// Nothing that the owner sends arrives, neither at etcd nor at nodes; it hears them.
    OwnerCannotSend,
    /// Nothing arrives at the owner: its transactions take effect, and their answers are lost.
    OwnerCannotReceive,
    TwoMembersDead,
    /// etcd takes no more writes, and is tidied up.
    EtcdFull,
    /// One node an hour ahead, one an hour behind; then owners are killed.
    ClocksOff,
    /// Everything old is forgotten all the time, also while a shard is loaded.
    Compaction,
    /// Each node is stopped with SIGTERM and started again.
    RollingRestart,
}

impl ClusterFault {
    pub fn name(self) -> &'static str {
        match self {
            Self::KillOwner => "owner killed",
            Self::PauseOwner => "owner paused",
            Self::KillLeader => "etcd's leader killed",
            Self::PauseLeader => "etcd's leader paused",
            Self::KillBoth => "both killed",
            Self::PauseBoth => "both paused",
            Self::CutOwnerFromEtcd => "owner cut from etcd",
            Self::CutOwnerFromNodes => "owner cut from nodes",
            Self::OwnerCannotSend => "owner cannot send",
            Self::OwnerCannotReceive => "owner cannot receive",
            Self::TwoMembersDead => "two members dead",
            Self::EtcdFull => "etcd full",
            Self::ClocksOff => "clocks off by an hour",
            Self::Compaction => "compaction",
            Self::RollingRestart => "rolling restart",
        }
    }

    pub fn members_needed(self) -> u32 {
        match self {
            Self::KillLeader | Self::PauseLeader | Self::KillBoth | Self::PauseBoth | Self::TwoMembersDead => 3,
            Self::KillOwner
            | Self::PauseOwner
            | Self::CutOwnerFromEtcd
            | Self::CutOwnerFromNodes
            | Self::OwnerCannotSend
            | Self::OwnerCannotReceive
            | Self::EtcdFull
            | Self::ClocksOff
            | Self::Compaction
            | Self::RollingRestart => 1,
        }
    }

    /// The goal: from the last grant before it to the next, in the shards that it hits.
    pub fn granted_within_seconds(self) -> Option<f64> {
        match self {
            Self::KillOwner | Self::KillLeader => Some(10.0),
            Self::RollingRestart => Some(2.0),
            Self::PauseOwner
            | Self::PauseLeader
            | Self::KillBoth
            | Self::PauseBoth
            | Self::CutOwnerFromEtcd
            | Self::CutOwnerFromNodes
            | Self::OwnerCannotSend
            | Self::OwnerCannotReceive
            | Self::TwoMembersDead
            | Self::EtcdFull
            | Self::ClocksOff
            | Self::Compaction => None,
        }
    }

    /// Whether steps run meanwhile, which must not overlap with those of the next owner. A node that is stopped waits for
    /// its steps, so there are none where that is measured.
    pub fn has_steps(self) -> bool {
        matches!(
            self,
            Self::KillOwner
                | Self::PauseOwner
                | Self::KillBoth
                | Self::PauseBoth
                | Self::CutOwnerFromEtcd
                | Self::OwnerCannotSend
                | Self::OwnerCannotReceive
        )
    }

    /// Why it cannot be played here.
    pub fn missing(self) -> Option<&'static str> {
        (self == Self::ClocksOff && faketime().is_none()).then_some("libfaketime is not installed")
    }
}

/// The library that shows a program another time.
pub fn faketime() -> Option<PathBuf> {
    let entries = std::fs::read_dir(LIBRARIES).ok()?;
    entries.filter_map(Result::ok).map(|entry| entry.path().join(FAKETIME)).find(|path| path.exists())
}
