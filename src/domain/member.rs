//! A member as the rules see it: role, address, and share of the organization's places in queues, connections and
//! stored objects.

use std::fmt;
use std::sync::Arc;

use super::named::named_enum;
use super::{Malformed, UserId};

named_enum! {
    pub enum Role {
        Viewer = "viewer",
        Developer = "developer",
        Maintainer = "maintainer",
        Admin = "admin",
    }
}

/// A user, by the name they had at the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub id: UserId,
    pub name: Arc<str>,
}

/// An e-mail address, checked as far as possible without sending a message to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Email(Arc<str>);

impl Email {
    /// The maximum length for mail servers (RFC 5321).
    pub const LENGTH_MAX: usize = 254;
    /// Visible ASCII characters, one of them an `@` with something on both sides.
    pub const PATTERN: &'static str = "^[!-?A-~]+@[!-?A-~]+$";

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'@');
        let parts = text.split_once('@').filter(|(local, domain)| is_part(local) && is_part(domain));
        if parts.is_none() || text.len() > Self::LENGTH_MAX {
            return Err(Malformed(
                "must be an e-mail address of at most 254 ASCII characters, such as ana@acme.example",
            ));
        }
        Ok(Self(Arc::from(text)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An organization's limit for one resource, divided among its members.
///
/// A member may take another place while it has fewer than would remain free; organizations share places by the same
/// rule (`shares::Capacity::seats`). So a single member gets at most half, the next at most half of the rest, and every
/// member at least one. The last places are reserved for admins, who can stop whatever uses up the others; an admin may
/// take one of them no matter how many it already has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberShare {
    /// The organization's limit.
    pub total: usize,
    /// The number in use.
    pub used: usize,
    /// Whether the requesting member is an admin.
    pub is_admin: bool,
}

/// The member that requests a place of the organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    pub member: UserId,
    pub is_admin: bool,
}

/// Limits below this are not divided. Such a small limit, for example for a queue, refuses most claims on purpose, and
/// half of very few is too little for one member that a whole fleet may share.
const DIVIDED_FROM: usize = 32;
/// One place in this many is reserved for admins: more than they need to inspect and clean up.
const KEPT_FOR_ADMINS: usize = 16;
/// Limits below this have no reserve: one place would be half or a third of the limit.
const KEPT_FROM: usize = 4;

/// Why a member may not take another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoShare {
    /// The member already has this many places.
    Own { own: usize, total: usize },
    /// The organization has used all places except those reserved for its admins.
    Kept { kept: usize, total: usize },
    /// The organization has used all places.
    Full { total: usize },
}

impl MemberShare {
    /// Whether a member that has `own` places may take another. `own` is only called if the number matters.
    pub fn check(self, own: impl FnOnce() -> usize) -> Result<(), NoShare> {
        let Self { total, used, is_admin } = self;
        let Some(left) = total.checked_sub(used).and_then(|free| free.checked_sub(1)) else {
            return Err(NoShare::Full { total });
        };
        let kept = if total < KEPT_FROM { 0 } else { (total / KEPT_FOR_ADMINS).max(1) };
        if left < kept {
            return if is_admin { Ok(()) } else { Err(NoShare::Kept { kept, total }) };
        }
        if total < DIVIDED_FROM {
            return Ok(());
        }
        // No member has more than all members together.
        if used < left {
            return Ok(());
        }
        let own = own();
        if own > 0 && own >= left { Err(NoShare::Own { own, total }) } else { Ok(()) }
    }
}

impl fmt::Display for NoShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own { own, total } => {
                write!(
                    f,
                    "one member has {own} of the organization's {total} already, and the rest is kept for the others"
                )
            }
            Self::Kept { kept, total } => {
                write!(f, "the last {kept} of the organization's {total} are kept for its admins")
            }
            Self::Full { total } => write!(f, "the organization has all of its {total}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use testkit::patterns::assert_pattern_fits;

    #[test]
    fn an_address_has_one_at_sign_with_something_on_both_sides() {
        let good = ["a@b", "ana@acme.example", "ana+ci@[192.0.2.1]", "\"a\"@b"];
        let bad = ["", "@", "a@", "@b", "a@b@c", "a b@c", "ana@acme.example\n", "ä@b", "ana"];
        assert_pattern_fits(Email::PATTERN, |text| Email::parse(text).is_ok(), &good, &bad);
        let longest = format!("{}@acme.example", "x".repeat(Email::LENGTH_MAX - 13));
        assert!(Email::parse(&longest).is_ok() && Email::parse(&format!("x{longest}")).is_err());
        let shown = Email::parse("Ana@acme.example").map(|email| (email.as_str().to_owned(), email.to_string()));
        assert_eq!(shown, Ok(("Ana@acme.example".to_owned(), "Ana@acme.example".to_owned())));
    }

    /// How many places a member gets if it takes all it can while the others have `others`.
    fn taken(total: usize, others: usize, is_admin: bool) -> usize {
        (0..)
            .find(|own| MemberShare { total, used: others + own, is_admin }.check(|| *own).is_err())
            .unwrap_or_default()
    }

    #[test]
    fn one_member_gets_half_and_the_next_one_half_of_the_rest() {
        assert_eq!(taken(10_000, 0, false), 5_000);
        assert_eq!(taken(10_000, 5_000, false), 2_500);
        assert_eq!(taken(10_000, 7_500, false), 1_250);
        assert_eq!((taken(33, 0, false), taken(10_001, 0, false)), (16, 5_000));
    }

    #[test]
    fn the_last_ones_are_for_admins() {
        assert_eq!((taken(10_000, 9_375, false), taken(10_000, 9_375, true)), (0, 625));
        let share = MemberShare { total: 10_000, used: 9_375, is_admin: false };
        assert_eq!(share.check(|| 0), Err(NoShare::Kept { kept: 625, total: 10_000 }));
        assert_eq!(MemberShare { is_admin: true, ..share }.check(|| 0), Ok(()));
    }

    #[test]
    fn few_are_not_divided_but_for_one_that_is_kept() {
        for total in [0, 1, 3] {
            assert_eq!((taken(total, 0, false), taken(total, total, true)), (total, 0));
        }
        for total in [4, 5, 31] {
            assert_eq!((taken(total, 0, false), taken(total, 0, true)), (total - 1, total));
        }
        assert_eq!(taken(32, 0, false), 16);
    }

    #[test]
    fn what_a_member_has_is_not_counted_while_most_is_free() {
        let share = MemberShare { total: 10_000, used: 4_999, is_admin: false };
        assert_eq!(share.check(|| unreachable!("less than half is used")), Ok(()));
        let full = MemberShare { used: 10_000, ..share };
        assert_eq!(full.check(|| unreachable!("there is none")), Err(NoShare::Full { total: 10_000 }));
    }

    proptest! {
        /// However many members take all places they can, one after another, the limit holds and an admin gets a place.
        #[test]
        fn an_admin_always_finds_one(total in 4..20_000_usize, members in 1..200_usize) {
            let mut used = 0;
            for _ in 0..members {
                used += taken(total, used, false);
            }
            prop_assert!(used < total);
            prop_assert!(taken(total, used, true) > 0);
        }

        /// An admin gets a place regardless of how many it has, if the others have left only the reserve.
        #[test]
        fn an_admin_who_has_many_finds_one(total in 4..20_000_usize, own in 0..20_000_usize) {
            let kept = (total / KEPT_FOR_ADMINS).max(1);
            let own = own.min(taken(total, 0, true).min(total - kept));
            let others = (0..).find(|others| {
                let share = MemberShare { total, used: own + others, is_admin: false };
                share.check(|| 0).is_err()
            });
            let used = own + others.unwrap_or_default();
            prop_assert_eq!(total - used, kept);
            prop_assert_eq!(MemberShare { total, used, is_admin: true }.check(|| own), Ok(()));
        }

        #[test]
        fn a_newcomer_finds_one_unless_only_the_kept_are_left(total in 32..20_000_usize, members in 1..200_usize) {
            let mut used = 0;
            for _ in 0..members {
                used += taken(total, used, false);
            }
            // Until the others have taken all but the reserve, a newcomer gets a place too.
            prop_assert!(taken(total, used, false) > 0 || used == total - total / KEPT_FOR_ADMINS);
        }

        /// A member above a limit that was introduced later is refused more places but keeps its own.
        #[test]
        fn whoever_has_too_many_is_refused(total in 32..20_000_usize, own in 0..40_000_usize) {
            let share = MemberShare { total, used: own, is_admin: false };
            prop_assert_eq!(share.check(|| own).is_ok(), own < total / 2 || own == 0);
        }
    }
}
