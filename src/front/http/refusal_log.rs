//! What the log says of requests without a token that were refused: of each address the first in a while, and of those after
//! them how many. Strangers decide how many there are, and must not fill a disk.

use std::collections::HashMap;
use std::net::IpAddr;

use parking_lot::Mutex;

/// Refusals of one address that are logged one by one until the next report: each has its reason, for whoever sets up a CI.
const LOGGED_MAX: u64 = 40;
/// Addresses that are told apart until the next report; all others count as one.
const ADDRESSES_MAX: usize = 1_000;
/// Addresses that a report names: those with most refusals.
const NAMED_MAX: usize = 5;

/// How often each address was refused since the last report.
#[derive(Default)]
pub struct RefusalLog(Mutex<HashMap<(&'static str, Option<IpAddr>), u64>>);

/// Refusals of one kind that were not logged one by one.
#[derive(Debug, PartialEq, Eq)]
struct Refusals {
    of: &'static str,
    /// Empty if they are of many addresses.
    from: Option<IpAddr>,
    count: u64,
}

impl RefusalLog {
    /// Counts a refusal of this kind, and has it logged if it is one of the first from there.
    pub fn note(&self, of: &'static str, from: Option<IpAddr>, log: impl FnOnce()) {
        let mut refused = self.0.lock();
        let has_room = refused.len() < ADDRESSES_MAX || refused.contains_key(&(of, from));
        let count = refused.entry((of, from.filter(|_| has_room))).or_default();
        *count += 1;
        let is_logged = *count <= LOGGED_MAX;
        drop(refused);
        if is_logged {
            log();
        }
    }

    /// Logs what was counted and not logged; `seconds` have passed since the last time.
    pub fn report(&self, seconds: u64) {
        let refused = std::mem::take(&mut *self.0.lock());
        for Refusals { of, from, count } in unlogged(refused) {
            match from {
                Some(from) => tracing::warn!("refused {count} more {of} from {from} in the last {seconds} s"),
                None => tracing::warn!("refused {count} more {of} from other addresses in the last {seconds} s"),
            }
        }
    }
}

/// Most first; the addresses beyond the named ones together.
fn unlogged(refused: HashMap<(&'static str, Option<IpAddr>), u64>) -> Vec<Refusals> {
    let mut each: Vec<_> = refused
        .into_iter()
        .map(|((of, from), count)| Refusals { of, from, count: count.saturating_sub(LOGGED_MAX) })
        .collect();
    each.retain(|refusals| refusals.count > 0);
    each.sort_unstable_by_key(|refusals| (refusals.from.is_none(), std::cmp::Reverse(refusals.count)));
    let mut others: Vec<Refusals> = Vec::new();
    for Refusals { of, count, .. } in each.split_off(each.len().min(NAMED_MAX)) {
        match others.iter_mut().find(|others| others.of == of) {
            Some(others) => others.count += count,
            None => others.push(Refusals { of, from: None, count }),
        }
    }
    each.extend(others);
    each
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> Option<IpAddr> {
        Some(IpAddr::from(number.to_be_bytes()))
    }

    #[test]
    fn the_first_of_an_address_are_logged_and_the_others_are_counted() {
        let (log, mut logged) = (RefusalLog::default(), 0);
        for _ in 0..12_345 + LOGGED_MAX {
            log.note("token exchanges", address(1), || logged += 1);
        }
        log.note("token exchanges", address(2), || logged += 1);
        log.note("sign-ins", address(1), || logged += 1);
        assert_eq!(logged, LOGGED_MAX + 2);
        let refused = std::mem::take(&mut *log.0.lock());
        assert_eq!(unlogged(refused), [Refusals { of: "token exchanges", from: address(1), count: 12_345 }]);
    }

    #[test]
    fn memory_and_reports_are_bounded_however_many_addresses_there_are() {
        let (log, mut logged) = (RefusalLog::default(), 0);
        for _ in 0..LOGGED_MAX + 10 {
            for number in 0..2_000 {
                log.note("sign-ins", address(number), || logged += 1);
            }
        }
        assert_eq!(logged, (ADDRESSES_MAX as u64 + 1) * LOGGED_MAX);
        let refused = std::mem::take(&mut *log.0.lock());
        assert_eq!(refused.len(), ADDRESSES_MAX + 1);
        let reports = unlogged(refused);
        assert_eq!(reports.len(), NAMED_MAX + 1);
        assert_eq!(reports.iter().map(|refusals| refusals.count).sum::<u64>(), 2_000 * (LOGGED_MAX + 10) - logged);
    }
}
