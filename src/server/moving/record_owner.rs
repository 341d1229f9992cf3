//! Which organization a record belongs to, by its key or, where that names none, by its value or its token: the rules of
//! `store::keys`, applied.

use std::collections::HashMap;

use accounts::auth;
use domain::{IdSeed, Identifier};
use locks::idempotency;
use store::keys::{Kind, OwnerRule, organization_in};
use store::record::RecordError;
use store::{Store, StoreError};

/// Where a record belongs in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordOwner {
    Organization(Identifier),
    /// A setting of the whole store, which every shard needs.
    Everywhere,
    /// The answer to a request of a token that does not exist any more: nobody can ask for it.
    Nobody,
}

const DAMAGED: &str = "the data directory is damaged; restore a backup into another one with `lockkeeper restore`";

/// Why a record belongs nowhere that is known: one sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnownedRecord {
    #[error("the key {key} is of a kind that this version does not know: a newer version has written it; use that one")]
    Kind { key: String },
    #[error("the key {key} names no organization: {DAMAGED}")]
    Name { key: String },
    #[error("the record {key} names no organization: {error}; {DAMAGED}")]
    Value { key: String, error: RecordError },
}

/// The organizations of tokens and members, under which answers are recorded.
#[derive(Debug, Default)]
pub struct Scopes(HashMap<IdSeed, Identifier>);

impl Scopes {
    pub fn of(store: &dyn Store) -> Result<Self, StoreError> {
        let mut scopes = HashMap::new();
        // Also of tokens that were revoked since.
        idempotency::indexed_scopes(store, |scope, organization| _ = scopes.insert(scope, organization))?;
        auth::retry_scopes(store, |scope, organization| _ = scopes.insert(scope, organization))?;
        Ok(Self(scopes))
    }

    fn owner(&self, record_key: &[u8]) -> Option<RecordOwner> {
        let scope = idempotency::scope_of(record_key)?;
        Some(self.0.get(&scope).cloned().map_or(RecordOwner::Nobody, RecordOwner::Organization))
    }
}

/// To whom the record with this key and value belongs.
pub fn owner_of(key: &[u8], value: &[u8], scopes: &Scopes) -> Result<RecordOwner, UnownedRecord> {
    let shown = || key.escape_ascii().to_string();
    let unnamed = || UnownedRecord::Name { key: shown() };
    let unreadable = |error| UnownedRecord::Value { key: shown(), error };
    let kind = Kind::of(key).ok_or_else(|| UnownedRecord::Kind { key: shown() })?;
    match kind.owner {
        OwnerRule::Named => {
            let name = organization_in(kind.prefix, key).and_then(|name| Identifier::parse(name).ok());
            name.map(RecordOwner::Organization).ok_or_else(unnamed)
        }
        OwnerRule::Everywhere => Ok(RecordOwner::Everywhere),
        OwnerRule::Pointer => locks::organization_of_pointer(value).map(RecordOwner::Organization).map_err(unreadable),
        OwnerRule::Left => locks::organization_of_left(value).map(RecordOwner::Organization).map_err(unreadable),
        OwnerRule::Token => scopes.owner(key).ok_or_else(unnamed),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use store::keys::KINDS;
    use testkit::format_4::format_4;

    fn acme() -> RecordOwner {
        RecordOwner::Organization(Identifier::parse("acme").unwrap())
    }

    #[test]
    fn a_key_that_names_an_organization_goes_there() {
        let none = Scopes::default();
        for kind in KINDS.iter().filter(|kind| kind.owner == OwnerRule::Named) {
            for rest in [&b"acme"[..], b"acme/web/review-1", b"acme/\xff\x00/\x2f\x2f", b"acme//TOKEN"] {
                let key = [kind.prefix, rest].concat();
                assert_eq!(owner_of(&key, b"", &none), Ok(acme()), "{}", key.escape_ascii());
            }
            for rest in [&b""[..], b"/acme", b"\xff\xff/acme", b"No Name"] {
                let key = [kind.prefix, rest].concat();
                let found = owner_of(&key, b"", &none);
                assert!(matches!(found, Err(UnownedRecord::Name { .. })), "{}", key.escape_ascii());
            }
        }
    }

    #[test]
    fn a_record_without_an_organization_in_its_key_goes_by_its_value_or_its_token() {
        let acme_id = Identifier::parse("acme").unwrap();
        let scopes = Scopes(HashMap::from([(IdSeed([7; 12]), acme_id)]));
        let answer = [&b"k/"[..], &[7; 12], b"a key"].concat();
        let stranger = [&b"k/"[..], &[8; 12], b"a key"].concat();
        let cases = [
            (&b"i/00000001"[..], format_4("pointer"), acme()),
            (b"g/00000001", format_4("session that left a queue"), acme()),
            (&answer, Vec::new(), acme()),
            (&stranger, Vec::new(), RecordOwner::Nobody),
            (b"en", Vec::new(), RecordOwner::Everywhere),
            (b"oa", Vec::new(), RecordOwner::Everywhere),
            (b"TR/00000000", Vec::new(), RecordOwner::Everywhere),
        ];
        for (key, value, expected) in cases {
            assert_eq!(owner_of(key, &value, &scopes), Ok(expected), "{}", key.escape_ascii());
        }
        for (key, value) in [(&b"i/00000001"[..], &b"\xff"[..]), (b"g/00000001", b"")] {
            let found = owner_of(key, value, &scopes);
            assert!(matches!(found, Err(UnownedRecord::Value { .. })), "{}", key.escape_ascii());
        }
        assert!(matches!(owner_of(b"k/short", b"", &scopes), Err(UnownedRecord::Name { .. })));
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        for key in [&b"z/acme/1"[..], b"zz/acme", b"e", b"eno", b"", b"\xff"] {
            let found = owner_of(key, b"", &Scopes::default());
            assert!(matches!(found, Err(UnownedRecord::Kind { .. })), "{}", key.escape_ascii());
        }
    }
}
