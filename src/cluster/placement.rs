//! The shard of an organization, the node that should own a shard, and when an owner hands it over to that node, so
//! that returning nodes get their share again. Every node computes the same result without communication, and a joining
//! or leaving node moves only its own shards.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use domain::Identifier;

/// The shard of an organization. Part of the stored form, so it must never change.
pub fn shard_of(organization: &Identifier, shards: NonZeroU16) -> u16 {
    let hash = crc32c::crc32c(organization.as_str().as_bytes());
    // The remainder of a division by a 16-bit number has at most 16 bits.
    (hash % u32::from(shards.get())) as u16
}

/// How many of the other nodes have a higher claim to the shard than this one: 0 for the best node.
pub fn rank<'a>(shard: u16, node: &str, others: impl IntoIterator<Item = &'a str>) -> usize {
    let own = (weight(shard, node), node);
    others.into_iter().filter(|&other| (weight(shard, other), other) > own).count()
}

/// Rendezvous hashing: the node of the highest weight owns the shard.
fn weight(shard: u16, node: &str) -> u64 {
    let hash = Sha256::new().chain_update(shard.to_be_bytes()).chain_update(node).finalize();
    let (first, _) = hash.split_at(8);
    first.iter().fold(0, |weight, byte| weight << 8 | u64::from(*byte))
}

/// Prevents a node that comes and goes from moving shards each time.
const OUTRANKED_FOR: Duration = Duration::from_secs(60);

/// Since when each shard of this node should belong to another node, and to which.
#[derive(Debug, Default)]
pub struct Balance {
    outranked: HashMap<u16, (String, Instant)>,
}

impl Balance {
    /// A shard to hand over now, and the node that should own it.
    pub fn next(&mut self, own: &str, shards: &[u16], living: &[&str], now: Instant) -> Option<(u16, String)> {
        self.outranked.retain(|shard, _| shards.contains(shard));
        for shard in shards {
            let Some(best) = best(*shard, living).filter(|best| *best != own) else {
                self.outranked.remove(shard);
                continue;
            };
            match self.outranked.get(shard) {
                Some((node, _)) if node == best => {}
                Some(_) | None => _ = self.outranked.insert(*shard, (best.to_owned(), now)),
            }
        }
        let due = self.outranked.iter().filter(|(_, (_, since))| now.duration_since(*since) >= OUTRANKED_FOR);
        due.min_by_key(|(shard, _)| **shard).map(|(shard, (node, _))| (*shard, node.clone()))
    }
}

/// The best owner of a shard among these nodes.
pub fn best<'a>(shard: u16, nodes: &[&'a str]) -> Option<&'a str> {
    nodes.iter().copied().max_by_key(|node| (weight(shard, node), *node))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SIXTEEN: NonZeroU16 = NonZeroU16::new(16).unwrap();

    #[test]
    fn the_shard_of_an_organization_never_changes() {
        for (organization, shard) in [("acme", 6), ("team-1", 11), ("a", 0), ("initech", 1)] {
            let found = shard_of(&Identifier::parse(organization).unwrap(), SIXTEEN);
            assert_eq!(found, shard, "{organization}");
        }
    }

    #[test]
    fn organizations_are_spread_over_all_shards() {
        let mut counts = [0; 16];
        for number in 0..1600 {
            let organization = Identifier::parse(&format!("team-{number}")).unwrap();
            counts[usize::from(shard_of(&organization, SIXTEEN))] += 1;
        }
        assert!(counts.iter().all(|count| (60..=140).contains(count)), "{counts:?}");
    }

    fn owner<'a>(shard: u16, nodes: &[&'a str]) -> &'a str {
        let of = |node: &str| rank(shard, node, nodes.iter().copied().filter(|other| *other != node));
        let mut ranks: Vec<_> = nodes.iter().map(|node| (of(node), *node)).collect();
        ranks.sort_unstable();
        assert!(ranks.iter().map(|(rank, _)| *rank).eq(0..nodes.len()), "each rank once: {ranks:?}");
        ranks[0].1
    }

    #[test]
    fn nodes_own_about_as_many_shards_and_one_that_leaves_moves_only_its_own() {
        let (all, left) = (["a", "b", "c"], ["a", "c"]);
        for node in all {
            let owned = (0..300).filter(|shard| owner(*shard, &all) == node).count();
            assert!((70..=130).contains(&owned), "{node} owns {owned} of 300");
        }
        for shard in 0..300 {
            let before = owner(shard, &all);
            assert!(before == "b" || owner(shard, &left) == before, "shard {shard}");
        }
    }

    #[test]
    fn a_shard_goes_to_the_node_that_has_been_the_better_owner_for_a_minute() {
        let (mut balance, start) = (Balance::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let shards: Vec<u16> = (0..16).collect();
        assert_eq!(balance.next("a", &shards, &["a"], at(0)), None);
        assert_eq!(balance.next("a", &shards, &["a"], at(500)), None, "nobody else is there");
        assert_eq!(balance.next("a", &shards, &["a", "b"], at(501)), None);
        assert_eq!(balance.next("a", &shards, &["a"], at(530)), None, "it has gone again");
        assert_eq!(balance.next("a", &shards, &["a", "b"], at(531)), None);
        assert_eq!(balance.next("a", &shards, &["a", "b"], at(590)), None);
        let mut left = shards.clone();
        while let Some((shard, node)) = balance.next("a", &left, &["a", "b"], at(591)) {
            assert_eq!((node.as_str(), best(shard, &["a", "b"])), ("b", Some("b")));
            left.retain(|kept| *kept != shard);
        }
        assert!((4..=12).contains(&left.len()), "about half are kept: {left:?}");
        assert!(left.iter().all(|shard| best(*shard, &["a", "b"]) == Some("a")));
    }

    #[test]
    fn another_better_node_waits_anew() {
        let (mut balance, start) = (Balance::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        // The preferred owner among these three is c, then b, then a.
        let shard =
            (0..999).find(|n| best(*n, &["a", "b", "c"]) == Some("c") && best(*n, &["a", "b"]) == Some("b")).unwrap();
        assert_eq!(balance.next("a", &[shard], &["a", "b"], at(0)), None);
        assert_eq!(balance.next("a", &[shard], &["a", "b", "c"], at(59)), None);
        assert_eq!(balance.next("a", &[shard], &["a", "b", "c"], at(61)), None);
        assert_eq!(balance.next("a", &[shard], &["a", "b", "c"], at(119)), Some((shard, "c".to_owned())));
    }
}
