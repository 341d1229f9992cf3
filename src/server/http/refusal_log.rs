//! Logs refused requests that have no token: the first ones of each network in an interval, and then only their number.
//! Strangers decide how many such requests there are, and must neither fill a disk nor keep the reasons of other
//! refusals out of the log. The number of lines is bounded here, so their events have the field `bounded`, which
//! exempts them from the log's own limit.

use std::collections::HashMap;
use std::net::IpAddr;

use parking_lot::Mutex;

use accounts::auth::network;

/// Individually logged refusals per network and interval. Each shows its reason, which helps those who set up a CI.
const LOGGED_MAX: u64 = 40;
/// Individually logged refusals per interval, for all networks together.
const LINES_MAX: u64 = 800;
/// Networks counted separately per interval; all others count as one.
const NETWORKS_MAX: usize = 1_000;
/// Networks that a report names: those with the most refusals.
const NAMED_MAX: usize = 5;

/// Counts each network's refusals since the last report.
#[derive(Default)]
pub struct RefusalLog(Mutex<Refused>);

#[derive(Default)]
struct Refused {
    networks: HashMap<(&'static str, Option<IpAddr>), Count>,
    lines: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Count {
    logged: u64,
    left_out: u64,
}

/// Refusals of one kind that were not logged individually.
#[derive(Debug, PartialEq, Eq)]
struct Refusals {
    of: &'static str,
    /// `None` for several networks.
    from: Option<IpAddr>,
    count: u64,
}

impl RefusalLog {
    /// Counts a refusal of this kind, and calls `log` if it is one of the first from its network.
    pub fn note(&self, of: &'static str, from: Option<IpAddr>, log: impl FnOnce()) {
        let from = from.map(network);
        let mut refused = self.0.lock();
        let Refused { networks, lines } = &mut *refused;
        let has_room = networks.len() < NETWORKS_MAX || networks.contains_key(&(of, from));
        let count = networks.entry((of, from.filter(|_| has_room))).or_default();
        if count.logged >= LOGGED_MAX || *lines >= LINES_MAX {
            count.left_out += 1;
            return;
        }
        count.logged += 1;
        *lines += 1;
        drop(refused);
        log();
    }

    /// Logs the numbers of refusals that were not logged individually in the last `seconds`.
    pub fn report(&self, seconds: u64) {
        let refused = std::mem::take(&mut *self.0.lock());
        for Refusals { of, from, count } in unlogged(refused.networks) {
            match from {
                Some(from) => tracing::warn!("refused {count} more {of} from {from} in the last {seconds} s"),
                None => tracing::warn!("refused {count} more {of} from other networks in the last {seconds} s"),
            }
        }
    }
}

/// Sorted by count; all networks after the named ones are combined.
fn unlogged(refused: HashMap<(&'static str, Option<IpAddr>), Count>) -> Vec<Refusals> {
    let mut each: Vec<_> =
        refused.into_iter().map(|((of, from), count)| Refusals { of, from, count: count.left_out }).collect();
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
    fn the_first_of_a_network_are_logged_and_the_others_are_counted() {
        let (log, mut logged) = (RefusalLog::default(), 0);
        for _ in 0..12_345 + LOGGED_MAX {
            log.note("token exchanges", address(1), || logged += 1);
        }
        log.note("token exchanges", address(2), || logged += 1);
        log.note("sign-ins", address(1), || logged += 1);
        assert_eq!(logged, LOGGED_MAX + 2);
        let refused = std::mem::take(&mut *log.0.lock()).networks;
        assert_eq!(unlogged(refused), [Refusals { of: "token exchanges", from: address(1), count: 12_345 }]);
    }

    #[test]
    fn a_network_of_ipv6_is_one_however_many_addresses_it_has() {
        let (log, mut logged) = (RefusalLog::default(), 0);
        for number in 0..1_000_u16 {
            let address = IpAddr::from([0x2001, 0xdb8, 7, number, 0, 0, 0, 1]);
            log.note("sign-ins", Some(address), || logged += 1);
        }
        assert_eq!(logged, LOGGED_MAX);
    }

    #[test]
    fn memory_lines_and_reports_are_bounded_however_many_networks_there_are() {
        let (log, mut logged) = (RefusalLog::default(), 0);
        for _ in 0..50 {
            for number in 0..2_000 {
                log.note("sign-ins", address(number), || logged += 1);
            }
        }
        assert_eq!(logged, LINES_MAX);
        let refused = std::mem::take(&mut *log.0.lock()).networks;
        assert_eq!(refused.len(), NETWORKS_MAX + 1);
        let reports = unlogged(refused);
        assert_eq!(reports.len(), NAMED_MAX + 1);
        assert_eq!(reports.iter().map(|refusals| refusals.count).sum::<u64>(), 2_000 * 50 - logged);
    }
}
