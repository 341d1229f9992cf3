//! How many places one organization may have of something that all share.

use std::fmt;

use domain::NoShare;

/// A number of places, and how much of it one organization may have.
///
/// An organization may take one more place while it has fewer than `weight` times as many as would still be free (the
/// *dynamic thresholds* of shared buffers: Choudhury and Hahne, 1998). So a busy organization gets most of what others do
/// not use, every further one still finds some, and nothing has to be configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    total: usize,
    /// `None` if there is nobody to share with.
    weight: Option<usize>,
}

/// Given back soon: seven eighths of all may be one organization's.
const WEIGHT_OF_TURNS: usize = 7;
/// Held for long, so a newcomer cannot wait for one to be given back: one organization may have half of all, the next one
/// half of the rest, and so on.
const WEIGHT_OF_SEATS: usize = 1;

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The organization already has this many; the free ones are for others.
    Share { own: usize },
    /// All are taken.
    Full { total: usize },
    /// The organization may have more, but not this member of it.
    Member(NoShare),
}

impl Capacity {
    /// Places that are given back within seconds, such as those to read a list.
    pub const fn turns(total: usize) -> Self {
        Self { total, weight: Some(WEIGHT_OF_TURNS) }
    }

    /// Places that are held for as long as a client likes, such as those to stream events.
    pub const fn seats(total: usize) -> Self {
        Self { total, weight: Some(WEIGHT_OF_SEATS) }
    }

    /// The same on a server with so many organizations: a single one has nobody to leave places to.
    pub const fn among(self, organizations: usize) -> Self {
        if organizations > 1 { self } else { Self { weight: None, ..self } }
    }

    #[cfg(test)]
    pub const fn total(self) -> usize {
        self.total
    }

    /// Whether an organization that has `own` of the `used` places may have one more.
    pub fn check(self, own: usize, used: usize) -> Result<(), Refused> {
        let Some(left) = self.total.checked_sub(used).and_then(|free| free.checked_sub(1)) else {
            return Err(Refused::Full { total: self.total });
        };
        match self.weight {
            // The first place of an organization is never kept from it.
            Some(weight) if own > 0 && own >= weight.saturating_mul(left) => Err(Refused::Share { own }),
            Some(_) | None => Ok(()),
        }
    }

    /// The most that one organization can have while the others have so many.
    pub fn most_beside(self, others: usize) -> usize {
        Self { total: self.total.saturating_sub(others), ..self }.most()
    }

    /// The most that one organization can have, if the others have none.
    pub fn most(self) -> usize {
        let Some(weight) = self.weight else { return self.total };
        // The largest number of places of which the last was allowed: own < weight * (total - own - 1).
        let allowed = weight.saturating_mul(self.total).saturating_sub(weight).div_ceil(weight.saturating_add(1));
        allowed.max(1).min(self.total)
    }
}

impl fmt::Display for Refused {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How many an organization gets that takes all it can while the others have `others`.
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
            assert!(used <= capacity.total());
        }
    }

    #[test]
    fn a_refusal_says_whose_bound_it_is() {
        let capacity = Capacity::turns(4);
        assert_eq!(capacity.check(3, 3), Err(Refused::Share { own: 3 }));
        assert_eq!(capacity.check(0, 3), Ok(()));
        assert_eq!(capacity.check(0, 4), Err(Refused::Full { total: 4 }));
        assert_eq!(Capacity::turns(0).check(0, 0), Err(Refused::Full { total: 0 }));
    }
}
