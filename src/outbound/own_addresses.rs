//! The addresses of this machine's own interfaces. A public one is no way around the policy: what listens on it may be meant
//! for this machine's network alone.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use parking_lot::Mutex;

/// Addresses come and go while the server runs. Reading them takes about as long as resolving a name.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);

static KNOWN: Mutex<Option<(Instant, Arc<HashSet<IpAddr>>)>> = Mutex::new(None);

/// Whether an interface of this machine has the address. If they cannot be read, every address counts as one of them.
pub fn is_own(address: IpAddr) -> bool {
    known().is_none_or(|own| own.contains(&address))
}

/// As they were a moment ago; as they were last, if they cannot be read any more.
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
    fn loopback_is_our_own_and_the_internet_is_not() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("127.0.0.77".parse().unwrap()), "on no interface");
        assert!(!is_own("1.1.1.1".parse().unwrap()) && !is_own("2606:4700::1111".parse().unwrap()));
    }
}
