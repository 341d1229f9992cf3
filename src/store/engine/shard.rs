//! A shard's record: its version, its owner, and the sequence up to which the engine has all batches. Every transaction
//! of the owner compares the version and writes the record again, which both fences off other owners and keeps
//! transactions in order.
//!
//! How long an owner may act after its last confirmed transaction: nobody takes a shard whose record has changed within
//! the last five seconds, measured by the clock of the node that wants to take it, from when it *learnt* of the change
//! (`src/cluster/sightings.rs`). An owner counts four seconds from when it *sent* the transaction ([`Lease`]). So it
//! stops before another node starts, as long as the speeds of the two clocks differ by less than a fifth.

use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::batch::Sequence;
use crate::record::{self, Record, RecordError};

/// Identifies a write of a shard's record in the order of all transactions of an engine. A later write has a higher
/// version; 0 means that there is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Version(pub u64);

/// A process that owns shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub node: String,
    /// The address for other nodes.
    pub url: String,
    /// Drawn at random by each process. A restarted node is a different owner, and so is a second node that was given
    /// the same name by mistake.
    pub run: u128,
}

/// A shard according to its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    pub number: u16,
    pub version: Version,
    /// Incremented whenever a node takes the shard.
    pub epoch: u64,
    pub owner: Option<Owner>,
    /// The engine has all batches up to this one.
    pub sequence: Sequence,
    /// The owner's wall clock at its last transaction, in milliseconds. Never goes back.
    pub millis: u64,
    /// The node to which the last owner gave up the shard.
    pub successor: Option<String>,
}

/// The right to write a shard until another node takes it. Not copyable: there is one per owner and shard.
#[derive(Debug, PartialEq, Eq)]
pub struct Tenure {
    shard: Shard,
}

impl Shard {
    /// A shard without a record, which nobody has owned yet.
    pub fn vacant(number: u16) -> Shard {
        Shard { number, version: Version(0), epoch: 0, owner: None, sequence: Sequence(0), millis: 0, successor: None }
    }

    /// The record that is written to take the shard. Its version is known after the write.
    pub fn taken_by(&self, owner: &Owner) -> Shard {
        Shard { epoch: self.epoch + 1, owner: Some(owner.clone()), successor: None, ..self.clone() }
    }

    pub fn encode(&self) -> Vec<u8> {
        let Shard { number: _, version: _, epoch, owner, sequence, millis, successor } = self.clone();
        record::encode(&ShardV1 { epoch, owner, sequence: sequence.0, millis, successor })
    }

    pub fn decode(number: u16, version: Version, bytes: &[u8]) -> Result<Shard, RecordError> {
        let ShardV1 { epoch, owner, sequence, millis, successor } = record::decode(bytes)?;
        Ok(Shard { number, version, epoch, owner, sequence: Sequence(sequence), millis, successor })
    }
}

impl Tenure {
    /// The tenure of a shard whose new owner has written the record.
    pub fn of(taken: Shard, version: Version) -> Tenure {
        Tenure { shard: Shard { version, ..taken } }
    }

    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// The record that a transaction up to the batch `last` writes. Its version is known after the write.
    pub fn advanced_to(&self, last: Sequence, millis: u64) -> Shard {
        Shard { sequence: last, millis: millis.max(self.shard.millis), ..self.shard.clone() }
    }

    /// The record written when the owner gives the shard up, to this node if one is named.
    pub fn left_to(&self, successor: Option<&str>) -> Shard {
        Shard { owner: None, successor: successor.map(str::to_owned), ..self.shard.clone() }
    }

    /// Called after the record was written, with its new version.
    pub fn wrote(&mut self, record: Shard, version: Version) {
        self.shard = Shard { version, ..record };
    }
}

#[derive(Serialize, Deserialize)]
struct ShardV1 {
    epoch: u64,
    owner: Option<Owner>,
    sequence: u64,
    millis: u64,
    successor: Option<String>,
}

impl Record<'_> for ShardV1 {
    const KIND: &'static str = "shard";
}

/// Decides the outcome of a transaction whose comparison failed. If the answer to an earlier attempt was lost after it
/// took effect, the same transaction is sent again, and its own earlier effect makes the comparison fail. The shard's
/// record tells whether that happened.
///
/// Returns the version with which `intended` was written, if the found record is ours. Otherwise another node has taken
/// the shard: the transaction took effect before that, and the next owner has it, or it never will. In neither case is
/// it acknowledged.
///
/// This is exact: an epoch belongs to one owner, which has one transaction in flight and resolves it before sending
/// anything else. So only this transaction can have written a record with this epoch, owner and sequence.
pub fn resolve(intended: &Shard, found: Option<&Shard>) -> Option<Version> {
    let found = found?;
    let is_ours = found.epoch == intended.epoch && found.owner == intended.owner;
    (is_ours && found.sequence == intended.sequence).then_some(found.version)
}

/// Milliseconds of a clock that cannot be set, and that continues while the machine sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl Moment {
    pub fn plus(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }

    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// How long an owner may act. Written by the thread that sends the transactions, and read by all threads that answer
/// requests.
#[derive(Debug)]
pub struct Lease {
    lasts: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the last confirmed transaction was sent.
    sent: Moment,
    /// The end of the lease as far as its owner knows.
    known_until: Moment,
    /// The total time before `known_until` in which the owner did not hold the lease.
    stood_still: Duration,
}

impl Lease {
    /// The lease of a shard that was taken with a transaction sent at this time.
    pub fn since(sent: Moment, lasts: Duration) -> Self {
        let state = State { sent, known_until: sent.plus(lasts), stood_still: Duration::ZERO };
        Self { lasts, state: Mutex::new(state) }
    }

    /// Extends the lease after a transaction was confirmed whose first attempt was sent at this time. Later attempts do
    /// not count: the first may be the one that took effect.
    pub fn confirmed(&self, sent: Moment, now: Moment) {
        let mut state = self.state.lock();
        state.sent = state.sent.max(sent);
        let until = state.sent.plus(self.lasts);
        if until > now {
            let stood_still = now.since(state.known_until);
            state.stood_still += stood_still;
            state.known_until = until;
        }
    }

    /// How long the owner may still act; `None` if it must not.
    pub fn left(&self, now: Moment) -> Option<Duration> {
        let sent = self.state.lock().sent;
        self.lasts.checked_sub(now.since(sent)).filter(|left| !left.is_zero())
    }

    pub fn is_held(&self, now: Moment) -> bool {
        self.left(now).is_some()
    }

    /// The time that has passed for the shard. It stops while nobody may act on the shard, so that no lock ages while
    /// its holder cannot renew it.
    pub fn time(&self, now: Moment) -> Moment {
        let state = self.state.lock();
        let still = state.stood_still + now.since(state.known_until);
        Moment(now.0.saturating_sub(u64::try_from(still.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// The timing of leases. Must be the same on all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often an owner writes the record of its shard while there is nothing else to write.
    pub beat_every: Duration,
    /// How long an owner may act after its last confirmed transaction, counted from when it was sent.
    pub lease: Duration,
    /// A shard may be taken if its record has not changed for this long.
    pub taken_after: Duration,
    /// A shard is loaded ahead of time if its record has not changed for this long.
    pub loaded_after: Duration,
    /// The delay per rank before a node other than the intended owner takes a shard, so that not all try at the same
    /// time.
    pub per_rank: Duration,
    /// How often a node reads the records of all other nodes from the engine.
    pub poll_every: Duration,
    /// How often a node writes its own record.
    pub announce_every: Duration,
    /// A node that has not written its record for this long gets no shards.
    pub gone_after: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            beat_every: Duration::from_secs(1),
            lease: Duration::from_secs(4),
            taken_after: Duration::from_secs(5),
            loaded_after: Duration::from_secs(2),
            per_rank: Duration::from_millis(250),
            poll_every: Duration::from_millis(250),
            announce_every: Duration::from_secs(2),
            gone_after: Duration::from_secs(6),
        }
    }
}

impl Timing {
    /// For tests: all times divided by this factor.
    pub fn times_faster(factor: u32) -> Timing {
        let usual = Timing::default();
        Timing {
            beat_every: usual.beat_every / factor,
            lease: usual.lease / factor,
            taken_after: usual.taken_after / factor,
            loaded_after: usual.loaded_after / factor,
            per_rank: usual.per_rank / factor,
            poll_every: usual.poll_every / factor,
            announce_every: usual.announce_every / factor,
            gone_after: usual.gone_after / factor,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::batch::Sequence;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let owner = Owner { node: "n1".to_owned(), url: "http://n1:8080".to_owned(), run: u128::MAX };
        let vacant = Shard { sequence: Sequence(7), millis: 9, version: Version(3), ..Shard::vacant(12) };
        let left = Tenure::of(vacant.taken_by(&owner), Version(3)).left_to(Some("n2"));
        for shard in [vacant.clone(), vacant.taken_by(&owner), left] {
            assert_eq!(Shard::decode(12, Version(3), &shard.encode()), Ok(shard));
        }
        assert!(Shard::decode(12, Version(3), b"\xff").is_err());
    }

    #[test]
    fn time_does_not_go_back_in_a_record() {
        let tenure = Tenure::of(Shard { millis: 100, ..Shard::vacant(0) }, Version(1));
        assert_eq!(tenure.advanced_to(Sequence(1), 99).millis, 100);
        assert_eq!(tenure.advanced_to(Sequence(1), 101).millis, 101);
    }

    fn owner(run: u128) -> Owner {
        Owner { node: "n1".to_owned(), url: "http://n1:8080".to_owned(), run }
    }

    /// The record that a transaction of the first owner writes up to batch 8, over version 5 with batch 7.
    fn intended() -> Shard {
        let taken = Shard { sequence: Sequence(7), ..Shard::vacant(3) }.taken_by(&owner(1));
        Tenure::of(taken, Version(5)).advanced_to(Sequence(8), 0)
    }

    #[test]
    fn our_epoch_and_our_sequence_mean_that_it_had_happened() {
        let found = Shard { version: Version(6), ..intended() };
        assert_eq!(resolve(&intended(), Some(&found)), Some(Version(6)));
    }

    #[test]
    fn everything_else_means_that_somebody_has_taken_the_shard() {
        let later = Shard { version: Version(6), ..intended() };
        for found in [
            Shard { epoch: later.epoch + 1, owner: Some(owner(2)), ..later.clone() },
            // The same node after a restart.
            Shard { epoch: later.epoch + 1, owner: Some(owner(2)), sequence: Sequence(7), ..later.clone() },
            // The engine was restored from an old copy, and another node got the same epoch.
            Shard { owner: Some(owner(2)), ..later.clone() },
            Shard { sequence: Sequence(7), ..later.clone() },
            Shard { sequence: Sequence(9), ..later.clone() },
            Shard::vacant(3),
        ] {
            assert_eq!(resolve(&intended(), Some(&found)), None, "{found:?}");
        }
        assert_eq!(resolve(&intended(), None), None);
    }

    #[test]
    fn taking_a_shard_is_resolved_by_the_same_rule() {
        let seen = Shard { version: Version(4), sequence: Sequence(7), ..Shard::vacant(3) };
        let taken = seen.taken_by(&owner(1));
        let ours = Shard { version: Version(5), ..taken.clone() };
        assert_eq!(resolve(&taken, Some(&ours)), Some(Version(5)));
        let theirs = Shard { version: Version(5), ..seen.taken_by(&owner(2)) };
        assert_eq!(resolve(&taken, Some(&theirs)), None);
        assert_eq!(resolve(&taken, Some(&seen)), None);
    }

    #[test]
    fn a_lease_lasts_from_the_sending_of_the_last_confirmed_transaction() {
        let lasts = Duration::from_secs(4);
        let lease = Lease::since(Moment(1_000), lasts);
        assert_eq!(lease.left(Moment(1_000)), Some(lasts));
        assert_eq!(lease.left(Moment(4_999)), Some(Duration::from_millis(1)));
        assert_eq!(lease.left(Moment(5_000)), None);
        lease.confirmed(Moment(3_000), Moment(3_500));
        assert!(lease.is_held(Moment(6_999)) && !lease.is_held(Moment(7_000)));
        lease.confirmed(Moment(2_000), Moment(3_600));
        assert!(lease.is_held(Moment(6_999)), "an older confirmation takes nothing away");
    }

    #[test]
    fn time_stands_still_from_the_end_of_the_lease_until_it_is_held_again() {
        let lease = Lease::since(Moment(1_000), Duration::from_secs(4));
        let time = |now| lease.time(Moment(now)).0;
        assert_eq!((time(1_000), time(5_000), time(9_000)), (1_000, 5_000, 5_000));
        lease.confirmed(Moment(4_000), Moment(9_500));
        assert_eq!(time(9_500), 5_000, "it came too late to be held again");
        lease.confirmed(Moment(9_600), Moment(10_000));
        assert_eq!((time(10_000), time(10_001), time(13_600)), (5_000, 5_001, 8_600));
        lease.confirmed(Moment(12_000), Moment(12_100));
        assert_eq!(time(15_000), 10_000, "no gap, and none is counted");
        assert_eq!(time(20_000), 11_000);
    }

    #[test]
    fn an_owner_stops_a_fifth_before_anybody_may_take_its_shard() {
        let Timing { beat_every, lease, taken_after, .. } = Timing::default();
        assert!(lease * 5 <= taken_after * 4, "clocks may differ by a fifth of their speed");
        assert!(beat_every * 2 < lease, "one lost transaction costs no lease");
    }
}
