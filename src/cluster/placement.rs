//! Which shard an organization belongs to, and which node should own it. Every node computes the same, so nobody has to
//! be asked, and a node that comes or goes moves only its own shards.

use std::num::NonZeroU16;

use sha2::{Digest, Sha256};

use domain::Identifier;

/// The shard of an organization. Part of the stored form: it must never change.
pub fn shard_of(organization: &Identifier, shards: NonZeroU16) -> u16 {
    let hash = crc32c::crc32c(organization.as_str().as_bytes());
    // The remainder of a division by a number of 16 bits has at most 16 bits.
    (hash % u32::from(shards.get())) as u16
}

/// How many of the others should rather own the shard than this node: 0 for the one that should.
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
}
