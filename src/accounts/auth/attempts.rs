//! Limits sign-in attempts: per account, where only failures count, and per address of the client.
//!
//! The failures of an account are counted per address, so that a stranger's guesses do not lock the member out, and,
//! with a higher limit, over all addresses together. Browsers in which the member has signed in before have their own
//! counters, so strangers cannot block them. All their attempts, successes included, are also counted together: each
//! costs a hash, an event and a cookie. Attempts with an existing sign-in share one counter.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use domain::Identifier;

/// Accounts or addresses with separate counters. All others share one counter: strangers choose how many there are, and
/// memory is finite.
const KEYS_MAX: usize = 10_000;
/// The refill times: an account gets another failure from the same address or browser after the first, and an address
/// another attempt after the second.
const ACCOUNT_REFILL: Duration = Duration::from_secs(60);
const ADDRESS_REFILL: Duration = Duration::from_secs(1);
/// The limit on an account's failures from all addresses together, as a multiple of the limit for one address, and its
/// refill time. It takes six networks to use it up; then about 8,600 guesses a day are possible.
const ADDRESSES_AT_ONCE: u32 = 10;
const ALL_REFILL: Duration = Duration::from_secs(10);

/// Attempts of one account from all its known browsers, successes included: no person signs in that often, and a script
/// that does must leave hashes to others.
const KNOWN_AT_ONCE: u32 = 60;
const KNOWN_REFILL: Duration = Duration::from_secs(1);

/// The IPv6 prefixes that are counted: a host, a customer, and a site or a provider's cheapest offer. With each, its
/// burst limit as a multiple of that of one network. After the burst, all its networks together refill like one, so
/// that 65,536 networks of one stranger are one stranger.
const V6_NETWORKS: [(u32, u32); 3] = [(64, 1), (56, 2), (48, 3)];

/// How many attempts are allowed in a burst; `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptLimits {
    /// Failures of one account from one address.
    pub per_account: Option<u32>,
    /// Attempts from one address.
    pub per_address: Option<u32>,
}

pub struct Attempts {
    buckets: Mutex<AllBuckets>,
    began: Instant,
}

pub type Account = (Identifier, Identifier);

/// The origin of a sign-in attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visitor {
    /// An unknown browser at this address.
    Stranger(Option<IpAddr>),
    /// A browser in which the member has signed in before.
    KnownBrowser(BrowserId),
    /// A caller who is signed in as the member. All sign-ins share one counter: a stolen one can make more.
    SignedIn,
}

pub type BrowserId = [u8; 12];

/// Each is bounded separately, so that strangers cannot fill those of known browsers and sign-ins.
struct AllBuckets {
    addresses: Networks<()>,
    /// The failures of accounts: of strangers per address, and over all addresses.
    strangers: Networks<Account>,
    all_strangers: Buckets<Account>,
    browsers: Buckets<(Account, BrowserId)>,
    signed_in: Buckets<Account>,
    /// Attempts from known browsers, which are not counted for their address.
    known: Buckets<Account>,
}

/// How long to wait before the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there were too many attempts to sign in")]
pub struct TooSoon(pub Duration);

impl Attempts {
    pub fn new(limits: AttemptLimits) -> Self {
        let AttemptLimits { per_account, per_address } = limits;
        let is_limited = per_account.is_some() || per_address.is_some();
        let buckets = AllBuckets {
            addresses: Networks::new(per_address, ADDRESS_REFILL),
            strangers: Networks::new(per_account, ACCOUNT_REFILL),
            all_strangers: Buckets::new(times(per_account, ADDRESSES_AT_ONCE), ALL_REFILL),
            browsers: Buckets::new(per_account, ACCOUNT_REFILL),
            signed_in: Buckets::new(per_account, ACCOUNT_REFILL),
            known: Buckets::new(is_limited.then_some(KNOWN_AT_ONCE), KNOWN_REFILL),
        };
        Self { buckets: Mutex::new(buckets), began: Instant::now() }
    }

    /// Counts an attempt from an address.
    pub fn by_address(&self, address: IpAddr) -> Result<(), TooSoon> {
        self.buckets.lock().addresses.take(&(), Some(address), self.began.elapsed())
    }

    /// Counts an attempt, successful or not, from a browser in which the account has signed in before.
    pub fn by_known_browser(&self, account: &Account) -> Result<(), TooSoon> {
        self.buckets.lock().known.take(account.clone(), self.began.elapsed())
    }

    /// Counts a failure before the outcome is known: many concurrent attempts must not count as one.
    pub fn on_account(&self, account: &Account, by: Visitor) -> Result<(), TooSoon> {
        let (now, mut buckets) = (self.began.elapsed(), self.buckets.lock());
        match by {
            Visitor::KnownBrowser(browser) => buckets.browsers.take((account.clone(), browser), now),
            Visitor::SignedIn => buckets.signed_in.take(account.clone(), now),
            Visitor::Stranger(address) => {
                // An address over its own limit does not use up the limit of all addresses.
                buckets.strangers.take(account, address, now)?;
                buckets.all_strangers.take(account.clone(), now)
            }
        }
    }

    /// Undoes the count of `on_account`: the attempt succeeded.
    pub fn succeeded(&self, account: &Account, by: Visitor) {
        let mut buckets = self.buckets.lock();
        match by {
            Visitor::KnownBrowser(browser) => buckets.browsers.give_back(&(account.clone(), browser)),
            Visitor::SignedIn => buckets.signed_in.give_back(account),
            Visitor::Stranger(address) => {
                buckets.strangers.give_back(account, address);
                buckets.all_strangers.give_back(account);
            }
        }
    }
}

/// The addresses of one stranger: an IPv4 address or an IPv6 network.
pub fn network(address: IpAddr) -> IpAddr {
    within(address, 48)
}

/// The network with a prefix of `bits` that contains an IPv6 address.
fn within(address: IpAddr, bits: u32) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> (128 - bits) << (128 - bits))),
    }
}

/// Buckets per key and network: of IPv6 hosts and IPv4 addresses, and of each wider IPv6 network.
struct Networks<K>([Buckets<(K, Option<IpAddr>)>; V6_NETWORKS.len()]);

impl<K: Hash + Eq + Clone> Networks<K> {
    fn new(count: Option<u32>, refill: Duration) -> Self {
        Self(V6_NETWORKS.map(|(_, factor)| Buckets::new(times(count, factor), refill)))
    }

    /// Takes from the widest network first: once its bucket is empty, its hosts use no memory either. A host whose
    /// bucket is empty takes nothing from the bucket of its network.
    fn take(&mut self, key: &K, address: Option<IpAddr>, now: Duration) -> Result<(), TooSoon> {
        let counted = counted(address);
        for index in (0..counted.len()).rev() {
            if let Err(too_soon) = self.0[index].take((key.clone(), counted[index]), now) {
                for (buckets, wider) in self.0.iter_mut().zip(&counted).skip(index + 1) {
                    buckets.give_back(&(key.clone(), *wider));
                }
                return Err(too_soon);
            }
        }
        Ok(())
    }

    fn give_back(&mut self, key: &K, address: Option<IpAddr>) {
        for (buckets, network) in self.0.iter_mut().zip(counted(address)) {
            buckets.give_back(&(key.clone(), network));
        }
    }
}

fn times(count: Option<u32>, factor: u32) -> Option<u32> {
    count.map(|count| count.saturating_mul(factor))
}

fn counted(address: Option<IpAddr>) -> Vec<Option<IpAddr>> {
    match address.map(|address| address.to_canonical()) {
        Some(v6 @ IpAddr::V6(_)) => V6_NETWORKS.iter().map(|(bits, _)| Some(within(v6, *bits))).collect(),
        other => vec![other],
    }
}

/// A bucket of attempts for each key, refilled one at a time. Times are relative to a fixed moment.
struct Buckets<K> {
    refill: Duration,
    /// The time that an empty bucket needs until it is full again. None: unlimited.
    whole: Option<Duration>,
    /// When the bucket of each key is full again. Full buckets are removed.
    full_at: HashMap<K, Duration>,
    /// The shared bucket of all keys beyond the bound.
    others_full_at: Duration,
}

impl<K: Hash + Eq> Buckets<K> {
    fn new(count: Option<u32>, refill: Duration) -> Self {
        let whole = count.map(|count| refill * count);
        Self { refill, whole, full_at: HashMap::new(), others_full_at: Duration::ZERO }
    }

    fn take(&mut self, key: K, now: Duration) -> Result<(), TooSoon> {
        let Some(whole) = self.whole else { return Ok(()) };
        if self.full_at.len() >= KEYS_MAX && !self.full_at.contains_key(&key) {
            self.full_at.retain(|_, full_at| *full_at > now);
        }
        let has_room = self.full_at.len() < KEYS_MAX || self.full_at.contains_key(&key);
        let full_at = if has_room { self.full_at.entry(key).or_default() } else { &mut self.others_full_at };
        let after = (*full_at).max(now) + self.refill;
        if after > now + whole {
            return Err(TooSoon(after - now - whole));
        }
        *full_at = after;
        Ok(())
    }

    fn give_back(&mut self, key: &K) {
        if let Some(full_at) = self.full_at.get_mut(key) {
            *full_at = full_at.saturating_sub(self.refill);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use domain::samples;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_bucket_empties_refills_and_is_each_keys_own() {
        let mut buckets = Buckets::new(Some(3), MINUTE);
        let start = Duration::from_secs(1_000);
        for _ in 0..3 {
            assert_eq!(buckets.take("ana", start), Ok(()));
        }
        assert_eq!(buckets.take("ana", start), Err(TooSoon(MINUTE)));
        assert_eq!(buckets.take("ana", start + MINUTE / 2), Err(TooSoon(MINUTE / 2)));
        assert_eq!(buckets.take("ben", start), Ok(()));
        assert_eq!(buckets.take("ana", start + MINUTE), Ok(()));
        assert!(buckets.take("ana", start + MINUTE).is_err());
        assert_eq!((0..9).filter(|_| buckets.take("ana", start + 60 * MINUTE).is_ok()).count(), 3);
    }

    #[test]
    fn what_is_given_back_was_not_taken() {
        let mut buckets = Buckets::new(Some(1), MINUTE);
        for _ in 0..10 {
            assert_eq!(buckets.take("ana", MINUTE), Ok(()));
            buckets.give_back(&"ana");
        }
        assert_eq!(buckets.take("ana", MINUTE), Ok(()));
        assert!(buckets.take("ana", MINUTE).is_err());
    }

    #[test]
    fn memory_is_bounded_and_those_beyond_the_bound_share_a_bucket() {
        let mut buckets = Buckets::new(Some(2), MINUTE);
        for key in 0..KEYS_MAX {
            assert_eq!(buckets.take(key, MINUTE), Ok(()));
        }
        assert_eq!([1, 2, 3].map(|more| buckets.take(KEYS_MAX + more, MINUTE).is_ok()), [true, true, false]);
        assert_eq!((buckets.take(0, MINUTE), buckets.full_at.len()), (Ok(()), KEYS_MAX));
        assert_eq!(
            buckets.take(KEYS_MAX, 3 * MINUTE),
            Ok(()),
            "full buckets make room, also those that just became full"
        );
        assert_eq!(buckets.full_at.len(), 1);
    }

    #[test]
    fn addresses_of_one_network_are_one() {
        let address = |text: &str| text.parse::<IpAddr>().map(network);
        assert_eq!(address("2001:db8::1"), address("2001:db8:0:ffff::1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:1::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
        assert_ne!(address("192.0.2.1"), address("192.0.2.2"));
    }

    #[test]
    fn successes_of_known_browsers_are_counted_for_their_account() {
        let attempts = Attempts::new(AttemptLimits { per_account: None, per_address: Some(1) });
        let [ana, ben] = ["ana", "ben"].map(|name| (samples::identifier("acme"), samples::identifier(name)));
        // Each success makes the browser known under another id.
        let successes = (0..1_000).take_while(|number| {
            let known = Visitor::KnownBrowser([*number as u8; 12]);
            let counted = attempts.by_known_browser(&ana).and_then(|()| attempts.on_account(&ana, known));
            attempts.succeeded(&ana, known);
            counted.is_ok()
        });
        let successes = successes.count();
        // A few more may have been refilled meanwhile.
        assert!((60..80).contains(&successes), "{successes}");
        assert_eq!(attempts.by_known_browser(&ben), Ok(()));
    }

    #[test]
    fn without_limits_nothing_is_counted() {
        let attempts = Attempts::new(AttemptLimits { per_account: None, per_address: None });
        for _ in 0..1_000 {
            assert_eq!(attempts.by_address(IpAddr::V6(Ipv6Addr::LOCALHOST)), Ok(()));
        }
    }

    #[test]
    fn addresses_and_failures_of_accounts_are_counted_apart_and_a_success_is_no_failure() {
        let attempts = Attempts::new(AttemptLimits { per_account: Some(1), per_address: Some(1) });
        let [ana, ben] = ["ana", "ben"].map(|name| (samples::identifier("acme"), samples::identifier(name)));
        let address = IpAddr::V6(Ipv6Addr::LOCALHOST);
        // So many that refills do not matter.
        assert!((0..1_000).any(|_| attempts.by_address(address).is_err()));
        let stranger = Visitor::Stranger(Some(address));
        for _ in 0..1_000 {
            assert_eq!(attempts.on_account(&ana, stranger), Ok(()));
            attempts.succeeded(&ana, stranger);
        }
        assert!((0..1_000).any(|_| attempts.on_account(&ana, stranger).is_err()));
        assert_eq!(attempts.on_account(&ben, stranger), Ok(()));
    }

    #[test]
    fn the_networks_of_one_stranger_are_one_stranger() {
        let attempts = Attempts::new(AttemptLimits { per_account: Some(2), per_address: Some(2) });
        let ana = (samples::identifier("acme"), samples::identifier("ana"));
        let host = |site: u16, host: u16| IpAddr::from([0x2001, 0xdb8, site, host, 0, 0, 0, 1]);
        let failures = |address| {
            let by = Visitor::Stranger(Some(address));
            (0..1_000).take_while(|_| attempts.on_account(&ana, by).is_ok()).count()
        };
        // A host has 2, a /56 twice as many, and a /48 three times.
        assert_eq!([0, 1, 2, 0x100, 0x200].map(|number| failures(host(7, number))), [2, 2, 0, 2, 0]);
        assert_eq!((0..u16::MAX).map(|number| failures(host(7, number))).sum::<usize>(), 0);
        assert_eq!(failures(host(8, 0)), 2, "a neighbour may try");
        assert_eq!(failures(IpAddr::from([192, 0, 2, 1])), 2, "the account is not locked");

        let tried = (0..u16::MAX).filter(|number| attempts.by_address(host(7, *number)).is_ok()).count();
        assert!(tried < 100, "{tried} attempts of one stranger");
        let kept = |networks: &Networks<()>| networks.0.iter().map(|buckets| buckets.full_at.len()).sum::<usize>();
        assert!(kept(&attempts.buckets.lock().addresses) < KEYS_MAX / 10, "one stranger fills the memory");
    }

    #[test]
    fn a_stranger_locks_out_neither_other_addresses_nor_browsers_that_are_known() {
        let attempts = Attempts::new(AttemptLimits { per_account: Some(2), per_address: None });
        let ana = (samples::identifier("acme"), samples::identifier("ana"));
        let at = |number: u32| Visitor::Stranger(Some(IpAddr::V4(std::net::Ipv4Addr::from_bits(number))));
        let failures = |by: Visitor| (0..1_000).take_while(|_| attempts.on_account(&ana, by).is_ok()).count();
        assert_eq!((failures(at(1)), failures(at(2))), (2, 2));
        // All of them together are bounded too.
        assert_eq!((3..100).map(|number| failures(at(number))).sum::<usize>(), 16);
        assert_eq!(failures(at(1_000)), 0);
        let known = Visitor::KnownBrowser([7; 12]);
        for _ in 0..100 {
            assert_eq!(attempts.on_account(&ana, known), Ok(()));
            attempts.succeeded(&ana, known);
        }
        assert_eq!((failures(known), failures(Visitor::KnownBrowser([8; 12]))), (2, 2), "each is bounded by itself");
    }
}
