//! What became of a transaction whose compare failed.
//!
//! The answer to an earlier attempt may have been lost after the attempt took effect. The same transaction is then sent
//! again, and its own earlier effect makes its compare fail. The shard's record tells the two cases apart.

use super::shard::{Shard, Version};

/// The version with which `intended` was written, if the record that was found instead of the compared one is ours. Else
/// somebody has taken the shard: the transaction happened before that, and the next owner has it, or it never will.
/// Nobody is told of it in either case.
///
/// This is exact because an epoch belongs to one owner, who has one transaction under way at a time and sends nothing else
/// before that one is resolved: a record of this epoch and owner with this sequence can only come from this transaction.
pub fn resolve(intended: &Shard, found: Option<&Shard>) -> Option<Version> {
    let found = found?;
    let is_ours = found.epoch == intended.epoch && found.owner == intended.owner;
    (is_ours && found.sequence == intended.sequence).then_some(found.version)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::batch::Sequence;
    use crate::engine::{Owner, Tenure};

    fn owner(run: u128) -> Owner {
        Owner { node: "n1".to_owned(), url: "http://n1:8080".to_owned(), run }
    }

    /// What a transaction of the first owner writes up to batch 8, on top of version 5 with batch 7.
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
            // The same node, started again.
            Shard { epoch: later.epoch + 1, owner: Some(owner(2)), sequence: Sequence(7), ..later.clone() },
            // The engine was restored from an old copy, and somebody else got the same epoch.
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
}
