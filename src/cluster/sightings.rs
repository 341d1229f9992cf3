//! The shards and nodes that a node has seen, timed only by its own clock, since other clocks may be wrong.
//!
//! Every change of a record proves that its writer is alive. A node that cannot reach the engine sees no changes, and
//! must not conclude that the others are dead: after a failed poll, all times count from the next successful one.

use std::collections::HashMap;
use std::time::Duration;

use super::placement::rank;
use store::engine::{Moment, NodeRecord, Shard, Timing, Version};

/// A record's version, and when it was first seen.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    version: Version,
    since: Moment,
}

#[derive(Debug)]
pub struct Sightings {
    own: String,
    timing: Timing,
    shards: HashMap<u16, Sighting>,
    nodes: HashMap<String, Sighting>,
}

/// The next step for a shard that this node does not own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Wait,
    /// The owner may be gone: load the shard, so that taking it is faster.
    Prepare,
    Take,
}

impl Sightings {
    pub fn of(own: &str, timing: Timing) -> Self {
        Self { own: own.to_owned(), timing, shards: HashMap::new(), nodes: HashMap::new() }
    }

    /// `now` is the time of the engine's answer. The request was sent earlier, and the owner may have written its
    /// record in between: counted from the request, the record would seem unchanged for too long.
    pub fn saw(&mut self, shards: &[Shard], nodes: &[NodeRecord], now: Moment) {
        for shard in shards {
            note(self.shards.entry(shard.number), shard.version, now);
        }
        self.nodes.retain(|name, _| nodes.iter().any(|node| node.node == *name));
        for node in nodes {
            note(self.nodes.entry(node.node.clone()), node.version, now);
        }
    }

    /// The engine has not answered, so changes may have been missed.
    pub fn saw_nothing(&mut self) {
        self.shards.clear();
        self.nodes.clear();
    }

    /// The nodes that may own shards: this one, and those that have written their records recently.
    pub fn living(&self, now: Moment) -> impl Iterator<Item = &str> {
        let gone_after = self.timing.gone_after;
        self.nodes
            .iter()
            .filter(move |(_, sighting)| stood(**sighting, now) < gone_after)
            .map(|(name, _)| name.as_str())
    }

    /// The shards whose records have not changed for the length of a lease, so that nobody may act as their owner now.
    pub fn lapsed(&self, now: Moment) -> Vec<u16> {
        let lease = self.timing.lease;
        let silent = self.shards.iter().filter(|(_, sighting)| stood(**sighting, now) >= lease);
        silent.map(|(number, _)| *number).collect()
    }

    /// The next step for a shard that is not owned by this node.
    pub fn wish(&self, shard: &Shard, now: Moment) -> Wish {
        let others = self.living(now).filter(|node| *node != self.own);
        let later = self.timing.per_rank * u32::try_from(rank(shard.number, &self.own, others)).unwrap_or(u32::MAX);
        let Some(sighting) = self.shards.get(&shard.number).filter(|seen| seen.version == shard.version) else {
            return Wish::Wait;
        };
        let (stood, free_after) = (stood(*sighting, now), self.free_after(shard));
        if stood >= free_after + later {
            Wish::Take
        } else if stood >= self.timing.loaded_after.min(free_after) {
            Wish::Prepare
        } else {
            Wish::Wait
        }
    }

    /// How long the record must stay unchanged until the shard is free. A shard whose owner has left it is immediately
    /// free for the successor that the owner named.
    fn free_after(&self, shard: &Shard) -> Duration {
        match (&shard.owner, &shard.successor) {
            (None, None) => Duration::ZERO,
            (None, Some(successor)) if *successor == self.own => Duration::ZERO,
            (None, Some(_)) | (Some(_), _) => self.timing.taken_after,
        }
    }
}

fn note<K>(entry: std::collections::hash_map::Entry<'_, K, Sighting>, version: Version, now: Moment) {
    let sighting = entry.or_insert(Sighting { version, since: now });
    if sighting.version != version {
        *sighting = Sighting { version, since: now };
    }
}

fn stood(sighting: Sighting, now: Moment) -> Duration {
    now.since(sighting.since)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use store::engine::Owner;

    fn owned(version: u64) -> Shard {
        let owner = Owner { node: "a".to_owned(), url: String::new(), run: 1 };
        Shard { version: Version(version), owner: Some(owner), ..Shard::vacant(3) }
    }

    fn node(name: &str, version: u64) -> NodeRecord {
        NodeRecord { node: name.to_owned(), url: String::new(), program: String::new(), version: Version(version) }
    }

    #[test]
    fn a_record_that_stands_still_for_five_seconds_is_free() {
        let mut sightings = Sightings::of("b", Timing::default());
        sightings.saw(&[owned(1)], &[], Moment(0));
        let wishes = [(0, Wish::Wait), (1_999, Wish::Wait), (2_000, Wish::Prepare), (5_000, Wish::Take)];
        for (at, wish) in wishes {
            sightings.saw(&[owned(1)], &[], Moment(at));
            assert_eq!(sightings.wish(&owned(1), Moment(at)), wish, "{at}");
        }
        sightings.saw(&[owned(2)], &[], Moment(5_001));
        assert_eq!(sightings.wish(&owned(2), Moment(5_001)), Wish::Wait, "a sign of life");
        assert_eq!(sightings.wish(&owned(1), Moment(20_000)), Wish::Wait, "not the record that was seen last");
    }

    #[test]
    fn a_record_that_stands_still_for_as_long_as_a_lease_lasts_has_no_owner_who_may_act() {
        let mut sightings = Sightings::of("b", Timing::default());
        sightings.saw(&[owned(1)], &[], Moment(0));
        assert_eq!((sightings.lapsed(Moment(3_999)), sightings.lapsed(Moment(4_000))), (vec![], vec![3]));
        sightings.saw(&[owned(2)], &[], Moment(4_500));
        assert_eq!(sightings.lapsed(Moment(4_500)), Vec::<u16>::new());
    }

    #[test]
    fn time_without_answers_of_the_engine_does_not_count() {
        let mut sightings = Sightings::of("b", Timing::default());
        sightings.saw(&[owned(1)], &[], Moment(0));
        sightings.saw_nothing();
        assert_eq!(sightings.wish(&owned(1), Moment(9_000)), Wish::Wait);
        sightings.saw(&[owned(1)], &[], Moment(9_000));
        assert_eq!(sightings.wish(&owned(1), Moment(13_999)), Wish::Prepare);
        assert_eq!(sightings.wish(&owned(1), Moment(14_000)), Wish::Take);
    }

    #[test]
    fn a_node_that_does_not_write_its_record_is_not_waited_for() {
        let mut sightings = Sightings::of("b", Timing::default());
        sightings.saw(&[], &[node("b", 1), node("c", 2), node("dead", 3)], Moment(0));
        sightings.saw(&[], &[node("b", 4), node("c", 5), node("dead", 3)], Moment(6_000));
        let mut living: Vec<_> = sightings.living(Moment(6_000)).collect();
        living.sort_unstable();
        assert_eq!(living, ["b", "c"]);
    }

    #[test]
    fn the_living_try_one_after_the_other() {
        let free = Shard { version: Version(1), ..Shard::vacant(3) };
        let mut wishes = Vec::new();
        for own in ["b", "c"] {
            let mut sightings = Sightings::of(own, Timing::default());
            sightings.saw(std::slice::from_ref(&free), &[node("b", 4), node("c", 5)], Moment(0));
            wishes.push(sightings.wish(&free, Moment(249)));
            assert_eq!(sightings.wish(&free, Moment(250)), Wish::Take, "{own}");
        }
        wishes.sort_unstable_by_key(|wish| *wish == Wish::Take);
        assert_eq!(wishes, [Wish::Prepare, Wish::Take]);
    }

    #[test]
    fn a_shard_that_was_left_goes_to_its_successor_at_once_and_to_others_if_that_one_does_not_come() {
        let left = Shard { version: Version(1), successor: Some("b".to_owned()), ..Shard::vacant(3) };
        for (own, at_once) in [("b", Wish::Take), ("c", Wish::Wait)] {
            let mut sightings = Sightings::of(own, Timing::default());
            sightings.saw(std::slice::from_ref(&left), &[], Moment(0));
            assert_eq!(sightings.wish(&left, Moment(0)), at_once, "{own}");
            assert_eq!(sightings.wish(&left, Moment(5_000)), Wish::Take, "{own}");
        }
    }
}
