//! What a certificate says of itself: its names, and when it is valid.

use std::fmt;
use std::time::Duration;

use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

/// How long before its end a certificate is a concern: renewals are due earlier, and usually automatic.
const EXPIRES_SOON: Duration = Duration::from_hours(14 * 24);

/// The names and the validity of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Its DNS names, possibly with wildcards.
    pub names: Vec<String>,
    der: CertificateDer<'static>,
    not_before: UnixTime,
    not_after: UnixTime,
}

/// Why clients refuse a certificate at some moment, or will soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concern {
    NotYetValid,
    ExpiresSoon,
    Expired,
}

impl Certificate {
    pub fn of(der: &CertificateDer<'_>) -> Result<Self, Error> {
        let parsed = ParsedCertificate::try_from(der)?;
        let names =
            webpki::EndEntityCert::try_from(der).map(|found| found.valid_dns_names().map(str::to_owned).collect());
        Ok(Self {
            names: names.unwrap_or_default(),
            der: der.clone().into_owned(),
            not_before: missed_bound(&parsed, FIRST).unwrap_or(FIRST),
            not_after: missed_bound(&parsed, LAST).unwrap_or(LAST),
        })
    }

    /// Whether it is for this name or address, as clients would find.
    pub fn is_for(&self, host: &str) -> bool {
        let parsed = ParsedCertificate::try_from(&self.der);
        let name = ServerName::try_from(host);
        parsed.ok().zip(name.ok()).is_some_and(|(parsed, name)| verify_server_name(&parsed, &name).is_ok())
    }

    pub fn concern(&self, now: UnixTime) -> Option<Concern> {
        let left_seconds = self.not_after.as_secs().saturating_sub(now.as_secs());
        if now < self.not_before {
            Some(Concern::NotYetValid)
        } else if now > self.not_after {
            Some(Concern::Expired)
        } else {
            (left_seconds < EXPIRES_SOON.as_secs()).then_some(Concern::ExpiresSoon)
        }
    }

    /// The same, so long after 1970.
    pub fn concern_after(&self, since_epoch: Duration) -> Option<Concern> {
        self.concern(UnixTime::since_unix_epoch(since_epoch))
    }

    /// When it expires, in seconds since 1970.
    pub fn expires_at(&self) -> u64 {
        self.not_after.as_secs()
    }

    /// One sentence about a concern, with what to do.
    pub fn explain(&self, concern: Concern) -> String {
        let (begin, end) = (shown(self.not_before), shown(self.not_after));
        match concern {
            Concern::NotYetValid => {
                format!(
                    "the certificate is valid only from {begin} on; until then clients refuse it: check this machine's clock"
                )
            }
            Concern::ExpiresSoon => {
                format!("the certificate expires on {end}; put a new one in its place, no restart is needed")
            }
            Concern::Expired => {
                format!(
                    "the certificate expired on {end} and clients refuse it; put a new one in its place, no restart is needed"
                )
            }
        }
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = if self.names.is_empty() { "no DNS name".to_owned() } else { self.names.join(", ") };
        write!(f, "for {names}, until {}", shown(self.not_after))
    }
}

/// Before and after all certificates.
const FIRST: UnixTime = UnixTime::since_unix_epoch(Duration::ZERO);
const LAST: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));

/// The bound of its validity that a certificate misses at `time`. The verification begins with it, and says it in its error:
/// so no parser of certificates is needed beyond the one of rustls.
fn missed_bound(parsed: &ParsedCertificate<'_>, time: UnixTime) -> Option<UnixTime> {
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    match verify_server_cert_signed_by_trust_anchor(parsed, &RootCertStore::empty(), &[], time, algorithms) {
        Err(Error::InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. })) => Some(not_before),
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => Some(not_after),
        Ok(()) | Err(_) => None,
    }
}

fn shown(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| "an unknown time".to_owned(), |time| time.to_string())
}
