//! How often nodes show that they live, and for how long they believe each other.

use std::time::Duration;

/// The same on all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often an owner writes the record of its shard while there is nothing else to write.
    pub beat_every: Duration,
    /// How long an owner acts on its last confirmed transaction, counted from when it was sent.
    pub lease: Duration,
    /// A shard whose record has not changed for so long may be taken.
    pub taken_after: Duration,
    /// A shard is loaded ahead of time when its record has stood still for so long.
    pub loaded_after: Duration,
    /// How much later than the node that should own a shard the next one takes it, so that they do not all try at once.
    pub per_rank: Duration,
    /// How often a node asks the engine about all others.
    pub poll_every: Duration,
    /// How often a node writes its own record.
    pub announce_every: Duration,
    /// A node that has not written its record for so long gets no shards.
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
    /// For tests: everything happens so many times as often.
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
    use super::*;

    #[test]
    fn an_owner_stops_a_fifth_before_anybody_may_take_its_shard() {
        let Timing { beat_every, lease, taken_after, .. } = Timing::default();
        assert!(lease * 5 <= taken_after * 4, "clocks may differ by a fifth of their speed");
        assert!(beat_every * 2 < lease, "one lost transaction costs no lease");
    }
}
