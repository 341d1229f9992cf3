//! When an owner gives up a shard that another node should rather own: so that nodes which come back get their share again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::placement::rank;

/// A node that comes and goes should not move shards each time.
const OUTRANKED_FOR: Duration = Duration::from_secs(60);

/// Since when each shard of this node has been outranked, and by which node.
#[derive(Debug, Default)]
pub struct Balance {
    outranked: HashMap<u16, (String, Instant)>,
}

impl Balance {
    /// One shard that should be handed over now, and the node that should own it.
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

/// The node that should own a shard, of these.
pub fn best<'a>(shard: u16, nodes: &[&'a str]) -> Option<&'a str> {
    let others = |node: &str| nodes.iter().copied().filter(|other| *other != node).collect::<Vec<_>>();
    nodes.iter().copied().find(|node| rank(shard, node, others(node)) == 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

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
        // Of these three, c should own it, then b, then a.
        let shard =
            (0..999).find(|n| best(*n, &["a", "b", "c"]) == Some("c") && best(*n, &["a", "b"]) == Some("b")).unwrap();
        assert_eq!(balance.next("a", &[shard], &["a", "b"], at(0)), None);
        assert_eq!(balance.next("a", &[shard], &["a", "b", "c"], at(59)), None);
        assert_eq!(balance.next("a", &[shard], &["a", "b", "c"], at(61)), None);
        assert_eq!(balance.next("a", &[shard], &["a", "b", "c"], at(119)), Some((shard, "c".to_owned())));
    }
}
