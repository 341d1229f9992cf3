//! Which addresses are public, and which belong to this machine's own interfaces. The policy does not permit this
//! machine's public addresses: a service on them may be intended for this machine's network alone.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use parking_lot::Mutex;

/// Whether an address belongs to the public Internet, according to the registries of special-purpose addresses (RFC
/// 6890 and later additions).
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// The final destination of a connection: the IPv4 address that an IPv6 address stands for, or the address itself.
pub fn destination_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => embedded(v6).map_or(address, IpAddr::V4),
    }
}

/// The IPv4 address in a mapped address, or in one that NAT64 translates (RFC 6052).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = matches!(
        (a, b, c),
        (0 | 10 | 127, ..)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
            | (224.., ..)
    );
    !special
}

/// Permits only the IPv6 ranges for global use, without those that stand for other addresses: a tunnel address contains
/// an IPv4 address that would not have been checked.
fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(embedded) = embedded(address) {
        return is_public_v4(embedded);
    }
    match address.segments() {
        [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x2002, ..] | [0x3fff, 0..=0x0fff, ..] => false,
        [first, ..] => (0x2000..=0x3fff).contains(&first),
    }
}

/// Addresses may change while the server runs. Reading them takes about as long as resolving a name.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);

static KNOWN: Mutex<Option<(Instant, Arc<HashSet<IpAddr>>)>> = Mutex::new(None);

/// Whether an interface of this machine has the address. If the interfaces cannot be read, every address counts.
pub fn is_own(address: IpAddr) -> bool {
    known().is_none_or(|own| own.contains(&address))
}

/// This machine's addresses. Read again if the last reading is old; a failed reading keeps the previous addresses.
fn known() -> Option<Arc<HashSet<IpAddr>>> {
    let mut known = KNOWN.lock();
    let is_recent = known.as_ref().is_some_and(|(read, _)| read.elapsed() < READ_AGAIN_AFTER);
    if !is_recent {
        match getifaddrs() {
            Ok(interfaces) => {
                let addresses = interfaces.filter_map(|interface| {
                    let address = interface.address?;
                    let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
                    v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
                });
                *known = Some((Instant::now(), Arc::new(addresses.collect())));
            }
            Err(error) => tracing::warn!(%error, "cannot read the addresses of this machine"),
        }
    }
    known.as_ref().map(|(_, own)| own.clone())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_address_that_stands_for_another_one_is_that_one() {
        let destination_of = |text: &str| destination_of(text.parse().unwrap()).to_string();
        for v6 in ["::ffff:93.184.215.14", "64:ff9b::93.184.215.14", "64:ff9b::5db8:d70e"] {
            assert_eq!(destination_of(v6), "93.184.215.14", "{v6}");
        }
        for other in ["93.184.215.14", "2606:4700::1111", "::1", "64:ff9b:1::1"] {
            assert_eq!(destination_of(other), other);
        }
    }

    #[test]
    fn only_addresses_of_the_internet_at_large_are_public() {
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "203.0.112.255",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00::1",
            "2001:200::1",
            "2001:4860:4860::8888",
            "3ffe::1",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for special in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::1.1.1.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1.1.1.1",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:101:101::",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
    }

    #[test]
    fn loopback_is_our_own_and_the_internet_is_not() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("127.0.0.77".parse().unwrap()), "on no interface");
        assert!(!is_own("1.1.1.1".parse().unwrap()) && !is_own("2606:4700::1111".parse().unwrap()));
    }
}
