//! How many places of a shared resource one organization may have, and how much of a shared space it may fill: an
//! organization that fills little keeps all of it; the others share the rest equally.

use std::fmt;

use domain::NoShare;

/// A number of places, and the part of them that one organization may have.
///
/// An organization may take another place while it has fewer than `weight` times as many as would still be free (the
/// *dynamic thresholds* of shared buffers: Choudhury and Hahne, 1998). So a busy organization gets most of the places
/// that others do not use, every newcomer still gets some, and nothing has to be configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    pub(super) total: usize,
    /// `None` if there is only one organization.
    weight: Option<usize>,
}

/// For permits that are soon returned: one organization may have seven eighths of all.
const WEIGHT_OF_TURNS: usize = 7;
/// For permits that are held for so long that a newcomer cannot wait for one: one organization may have half of all,
/// the next one half of the rest, and so on.
const WEIGHT_OF_SEATS: usize = 1;

/// Why no place is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareError {
    /// The organization already has this many places; the free ones are for others.
    Share { own: usize },
    /// All places are taken.
    Full { total: usize },
    /// The organization may have more places, but not this member.
    Member(NoShare),
}

impl Capacity {
    /// For permits that are returned within seconds, such as those to read a list.
    pub const fn turns(total: usize) -> Self {
        Self { total, weight: Some(WEIGHT_OF_TURNS) }
    }

    /// For permits that are held for as long as a client likes, such as those to stream events.
    pub const fn seats(total: usize) -> Self {
        Self { total, weight: Some(WEIGHT_OF_SEATS) }
    }

    /// This capacity on a server with this many organizations: a single one need not leave places for others.
    pub const fn among(self, organizations: usize) -> Self {
        if organizations > 1 { self } else { Self { weight: None, ..self } }
    }

    /// Whether an organization with `own` of the `used` places may have another.
    pub fn check(self, own: usize, used: usize) -> Result<(), ShareError> {
        let Some(left) = self.total.checked_sub(used).and_then(|free| free.checked_sub(1)) else {
            return Err(ShareError::Full { total: self.total });
        };
        match self.weight {
            // An organization always gets its first place.
            Some(weight) if own > 0 && own >= weight.saturating_mul(left) => Err(ShareError::Share { own }),
            Some(_) | None => Ok(()),
        }
    }

    /// The most places that one organization can have while the others have `others`.
    pub fn most_beside(self, others: usize) -> usize {
        Self { total: self.total.saturating_sub(others), ..self }.most()
    }

    /// The most places that one organization can have if the others have none.
    pub fn most(self) -> usize {
        let Some(weight) = self.weight else { return self.total };
        // The largest `own` whose last place was allowed: own < weight * (total - own - 1).
        let allowed = weight.saturating_mul(self.total).saturating_sub(weight).div_ceil(weight.saturating_add(1));
        allowed.max(1).min(self.total)
    }
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share { own } => {
                write!(f, "your organization already has its share, {own}, and the rest is kept for others")
            }
            Self::Full { total } => write!(f, "all {total} of this server are in use"),
            Self::Member(refused) => refused.fmt(f),
        }
    }
}

/// How much each organization may keep so that together they keep at most `total`; `u64::MAX` if everything fits. An
/// organization with at most an equal part of `total` is never above this level.
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

/// `total` may be exceeded by one part in this many, until the next cleanup.
const SLACK: u64 = 8;

/// Whether an organization with `own` of the `used` units may add another: always if it has less than an equal part,
/// otherwise while there is room in total.
pub fn may_grow(total: u64, used: u64, own: u64, organizations: usize) -> bool {
    used < total.saturating_add(total / SLACK) || own < total / organizations.max(1) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How many places an organization gets if it takes all it can while the others have `others`.
    fn taken(capacity: Capacity, others: usize) -> usize {
        (0..).find(|own| capacity.check(*own, others + own).is_err()).unwrap_or_default()
    }

    #[test]
    fn one_organization_gets_most_and_leaves_some_to_others() {
        for (total, most) in [(1, 1), (2, 1), (3, 2), (4, 3), (8, 7), (64, 56), (4_096, 3_584)] {
            let capacity = Capacity::turns(total);
            assert_eq!((taken(capacity, 0), capacity.most()), (most, most), "of {total}");
        }
        for (total, most) in [(1, 1), (2, 1), (3, 1), (4, 2), (1_000, 500), (4_000, 2_000)] {
            let capacity = Capacity::seats(total);
            assert_eq!((taken(capacity, 0), capacity.most()), (most, most), "of {total}");
        }
    }

    #[test]
    fn a_single_organization_has_all_places() {
        for total in [1, 2, 64] {
            let capacity = Capacity::turns(total).among(1);
            assert_eq!((taken(capacity, 0), capacity.most()), (total, total));
            assert_eq!(Capacity::turns(total).among(2), Capacity::turns(total));
        }
    }

    #[test]
    fn whatever_others_have_a_newcomer_finds_a_place() {
        for capacity in [Capacity::turns(64), Capacity::seats(1_000), Capacity::seats(4_000)] {
            let mut used = 0;
            for organization in 0..3 {
                let got = taken(capacity, used);
                assert!(got > 0, "organization {organization} gets none");
                used += got;
            }
            assert!(used <= capacity.total);
        }
    }

    #[test]
    fn a_refusal_says_whose_bound_it_is() {
        let capacity = Capacity::turns(4);
        assert_eq!(capacity.check(3, 3), Err(ShareError::Share { own: 3 }));
        assert_eq!(capacity.check(0, 3), Ok(()));
        assert_eq!(capacity.check(0, 4), Err(ShareError::Full { total: 4 }));
        assert_eq!(Capacity::turns(0).check(0, 0), Err(ShareError::Full { total: 0 }));
    }

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
            // The level is maximal: raising it by one would be too much.
            if level < u64::MAX {
                prop_assert!(used.iter().map(|amount| *amount.min(&(level + 1))).sum::<u64>() > total);
            }
        }
    }
}
