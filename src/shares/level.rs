//! Dividing a space that organizations fill: one that fills little keeps all of it, the others share the rest equally.

/// How much each organization may keep so that together they keep at most `total`; `u64::MAX` if everything fits. An
/// organization that has at most an equal part of `total` is never above it.
pub fn level(total: u64, mut used: Vec<u64>) -> u64 {
    used.sort_unstable();
    let mut left = total;
    for (index, amount) in used.iter().enumerate() {
        let equal_part = left / (used.len() - index) as u64;
        if *amount > equal_part {
            return equal_part;
        }
        left -= amount;
    }
    u64::MAX
}

/// Beyond `total`, this part of it is left for what is added until the next time that the surplus is dropped.
const SLACK: u64 = 8;

/// Whether an organization that has `own` of the `used` may add to it: those that have less than an equal part always may,
/// the others while there is room in all.
pub fn may_grow(total: u64, used: u64, own: u64, organizations: usize) -> bool {
    used < total.saturating_add(total / SLACK) || own < total / organizations.max(1) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_largest_give_way_first() {
        assert_eq!(level(100, vec![]), u64::MAX);
        assert_eq!(level(100, vec![100]), u64::MAX);
        assert_eq!(level(100, vec![101]), 100);
        assert_eq!(level(100, vec![10, 95]), 90);
        assert_eq!(level(100, vec![70, 10, 80]), 45);
        assert_eq!(level(2, vec![1, 1, 1]), 0);
    }

    #[test]
    fn an_equal_part_is_always_free_and_what_others_leave_may_be_used() {
        assert!(may_grow(1_000, 1_124, 1_124, 1), "until the next sweep");
        assert!(!may_grow(1_000, 1_125, 1_125, 1));
        assert!(may_grow(1_000, 1_124, 1_000, 2));
        assert!(!may_grow(1_000, 1_125, 1_000, 2));
        assert!(!may_grow(1_000, 1_125, 500, 2));
        assert!(may_grow(1_000, 1_125, 499, 2) && may_grow(1_000, 1_900, 0, 2));
    }

    proptest! {
        #[test]
        fn all_that_is_kept_fits_and_nobody_loses_an_equal_part(
            total in 0..1_000_u64,
            used in proptest::collection::vec(0..1_000_u64, 0..10),
        ) {
            let level = level(total, used.clone());
            let kept: u64 = used.iter().map(|amount| *amount.min(&level)).sum();
            prop_assert!(kept <= total);
            prop_assert!(used.is_empty() || level >= total / used.len() as u64);
            // Nothing is given up that would fit: raising the level by one would be too much.
            if level < u64::MAX {
                prop_assert!(used.iter().map(|amount| *amount.min(&(level + 1))).sum::<u64>() > total);
            }
        }
    }
}
