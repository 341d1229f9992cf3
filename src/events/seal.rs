//! Seals: marks along the chain of events that only a holder of the audit key can make. Hashes alone only show that the
//! chain is consistent: an attacker who can write to the disk can recompute them, but not the seals.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use domain::{Identifier, SecurityClass};
use records::stored::{self, Stored, stored};
use store::journal::{self, Hash};
use store::keys::{SEALS, in_organization};
use store::record::{RecordError, encode, records};

records! {
    SealV1<'a> = "seal of events",
    ArchiveHeadV1<'a> = "end of an event archive",
}

/// The key of all seals. Wiped when the last copy is dropped; `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct AuditKey(Arc<Zeroizing<[u8; AuditKey::BYTES]>>);

/// Confirms the chain up to the event before `next`, whose hash is `hash`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// The `next` of the previous seal; for an organization's first seal, its own.
    pub since: u64,
    pub next: u64,
    pub hash: Hash,
    /// The MAC of the previous seal, so that removing one is detected; zeros for the first.
    pub before: Hash,
    pub mac: Hash,
}

stored! { struct SealV1 of Seal { since: u64, next: u64, hash: Hash, before: Hash, mac: Hash } }

/// The range of the archive of one class, in positions, which rise by one with each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArchiveHead {
    /// The first kept position.
    pub first: u64,
    pub next: u64,
    /// The hash of the last event in the archive.
    pub hash: Hash,
    /// Proves that a server with the audit key wrote the head.
    pub mac: Option<Hash>,
}

stored! { struct ArchiveHeadV1 of ArchiveHead { first: u64, next: u64, hash: Hash, mac: Option<Hash> } }

impl ArchiveHead {
    pub fn origin(organization: &Identifier, class: SecurityClass) -> Self {
        let hash = journal::origin(&format!("{organization}/{class}"));
        Self { first: 0, next: 0, hash, mac: None }
    }

    pub fn len(&self) -> u64 {
        self.next.saturating_sub(self.first)
    }
}

impl AuditKey {
    pub const BYTES: usize = 32;

    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(Arc::new(Zeroizing::new(bytes)))
    }

    pub fn generate() -> Self {
        let mut bytes = Zeroizing::new([0; Self::BYTES]);
        rand::Rng::fill_bytes(&mut rand::rng(), bytes.as_mut_slice());
        Self::new(*bytes)
    }

    pub fn reveal(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// The seal that follows `last` or replaces it.
    pub fn seal(&self, organization: &Identifier, since: u64, next: u64, hash: Hash, before: Hash) -> Seal {
        let seal = Seal { since, next, hash, before, mac: Hash::default() };
        Seal { mac: self.of_seal(organization, &seal).finalize().into_bytes().into(), ..seal }
    }

    pub fn made(&self, organization: &Identifier, seal: &Seal) -> bool {
        self.of_seal(organization, seal).verify_slice(&seal.mac).is_ok()
    }

    pub(super) fn mac_of_archive(&self, organization: &Identifier, class: SecurityClass, head: &ArchiveHead) -> Hash {
        self.of_archive(organization, class, head).finalize().into_bytes().into()
    }

    pub(super) fn made_archive(&self, organization: &Identifier, class: SecurityClass, head: &ArchiveHead) -> bool {
        head.mac.is_some_and(|mac| self.of_archive(organization, class, head).verify_slice(&mac).is_ok())
    }

    fn of_seal(&self, organization: &Identifier, seal: &Seal) -> Hmac<Sha256> {
        let mac = self.begin("journal", organization);
        let mac = mac.chain_update(seal.since.to_be_bytes()).chain_update(seal.next.to_be_bytes());
        mac.chain_update(seal.hash).chain_update(seal.before)
    }

    fn of_archive(&self, organization: &Identifier, class: SecurityClass, head: &ArchiveHead) -> Hmac<Sha256> {
        let mac = self.begin(&format!("archive of {class}"), organization);
        mac.chain_update(head.first.to_be_bytes()).chain_update(head.next.to_be_bytes()).chain_update(head.hash)
    }

    /// Begins a MAC with its purpose and the organization. The zero byte after the purpose occurs in no name, so no two
    /// purposes have the same bytes.
    fn begin(&self, kind: &str, organization: &Identifier) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(self.0.as_slice()).expect("a key of any length will do");
        mac.chain_update(format!("lockkeeper {kind} {organization}\0"))
    }
}

impl fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditKey(…)")
    }
}

impl Seal {
    pub fn encode(&self) -> Vec<u8> {
        encode(&self.to_form())
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        stored::read(bytes)
    }
}

/// `EM/{organization}/{next, inverted}`: sorts newest first.
pub fn seal_key(organization: &Identifier, next: u64) -> Vec<u8> {
    [&*seals_of(organization), &(u64::MAX - next).to_be_bytes()].concat()
}

/// The prefix of the seals of an organization.
pub fn seals_of(organization: &Identifier) -> Vec<u8> {
    in_organization(SEALS, organization.as_str())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_seal_holds_for_what_it_was_made_of_and_nothing_else() {
        let (acme, umbrella) = (Identifier::parse("acme").unwrap(), Identifier::parse("umbrella").unwrap());
        let key = AuditKey::generate();
        let seal = key.seal(&acme, 3, 35, [7; 32], [8; 32]);
        assert!(key.made(&acme, &seal) && Seal::decode(&seal.encode()) == Ok(seal));
        assert!(!key.made(&umbrella, &seal) && !AuditKey::generate().made(&acme, &seal));
        for other in [
            Seal { since: 4, ..seal },
            Seal { next: 36, ..seal },
            Seal { hash: [9; 32], ..seal },
            Seal { before: [9; 32], ..seal },
            Seal { mac: [9; 32], ..seal },
        ] {
            assert!(!key.made(&acme, &other), "{other:?}");
        }
        assert_eq!(format!("{key:?}"), "AuditKey(…)");
    }
}
