//! Which organization a record belongs to, by its key or, where that names none, by its value or its token. The table in
//! docs/design/storage.md lists the same families of keys, and a test compares them.

use std::collections::HashMap;

use accounts::auth;
use domain::{IdSeed, Identifier};
use locks::idempotency;
use store::record::RecordError;
use store::{Store, StoreError};

/// Where a record belongs in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Home {
    Organization(Identifier),
    /// A setting of the whole store, which every shard needs.
    Everywhere,
    /// The answer to a request of a token that does not exist any more: nobody can ask for it.
    Nowhere,
}

const DAMAGED: &str = "the data directory is damaged; restore a backup into another one with `lockkeeper restore`";

/// Why a record belongs nowhere that is known: one sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stray {
    #[error("the key {key} is of a kind that this version does not know: a newer version has written it; use that one")]
    Kind { key: String },
    #[error("the key {key} names no organization: {DAMAGED}")]
    Name { key: String },
    #[error("the record {key} names no organization: {error}; {DAMAGED}")]
    Value { key: String, error: RecordError },
}

/// How the organization of a kind of record is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// It is the second part of the key.
    Named,
    /// There is one record, or it is of the process.
    Everywhere,
    /// It is in the value.
    Pointer,
    Left,
    /// It is that of the token, or of the member in whose name jobs act.
    Scope,
    /// The value is the key of a record of the kind before.
    ScopeInValue,
}

/// Every kind of record. A key begins with its kind, and a kind that ends with a slash has more after it.
const KINDS: &[(&[u8], Rule)] = &[
    (b"A/", Rule::Named),
    (b"D/", Rule::Named),
    (b"E/", Rule::Named),
    (b"EA/", Rule::Named),
    (b"EB/", Rule::Named),
    (b"EF/", Rule::Named),
    (b"EH/", Rule::Named),
    (b"EL/", Rule::Named),
    (b"EM/", Rule::Named),
    (b"N/", Rule::Named),
    (b"OD/", Rule::Named),
    (b"P/", Rule::Named),
    (b"PD/", Rule::Named),
    (b"R/", Rule::Named),
    (b"TI/", Rule::Named),
    // Of whichever organization comes first in the settings, which may change.
    (b"TR/", Rule::Everywhere),
    (b"TS/", Rule::Named),
    (b"TX/", Rule::Named),
    (b"UC/", Rule::Named),
    (b"UD/", Rule::Named),
    (b"UL/", Rule::Named),
    (b"a/", Rule::Named),
    (b"b/", Rule::Named),
    (b"d/", Rule::Named),
    (b"e/", Rule::Named),
    (b"en", Rule::Everywhere),
    (b"g/", Rule::Left),
    (b"h/", Rule::Named),
    (b"i/", Rule::Pointer),
    (b"k/", Rule::Scope),
    (b"l/", Rule::Named),
    (b"n/", Rule::Named),
    (b"nd/", Rule::Named),
    (b"o/", Rule::Named),
    (b"oa", Rule::Everywhere),
    (b"p/", Rule::Named),
    (b"q/", Rule::Named),
    (b"r/", Rule::Named),
    (b"ru/", Rule::Named),
    (b"s/", Rule::Named),
    (b"se/", Rule::Named),
    (b"t/", Rule::Named),
    (b"u/", Rule::Named),
    (b"wc/", Rule::Named),
    (b"wd/", Rule::Named),
    (b"wh/", Rule::Named),
    (b"x/", Rule::ScopeInValue),
    (b"xo/", Rule::Named),
];

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

    fn home(&self, record_key: &[u8]) -> Option<Home> {
        let scope = idempotency::scope_of(record_key)?;
        Some(self.0.get(&scope).cloned().map_or(Home::Nowhere, Home::Organization))
    }
}

/// Where the record with this key and value belongs.
pub fn home(key: &[u8], value: &[u8], scopes: &Scopes) -> Result<Home, Stray> {
    let shown = || key.escape_ascii().to_string();
    let unnamed = || Stray::Name { key: shown() };
    let unreadable = |error| Stray::Value { key: shown(), error };
    let kind = kind(key);
    let rule = KINDS.iter().find(|(known, _)| *known == kind).map(|(_, rule)| *rule);
    match rule.ok_or_else(|| Stray::Kind { key: shown() })? {
        Rule::Named => named(&key[kind.len()..]).map(Home::Organization).ok_or_else(unnamed),
        Rule::Everywhere => Ok(Home::Everywhere),
        Rule::Pointer => locks::organization_of_pointer(value).map(Home::Organization).map_err(unreadable),
        Rule::Left => locks::organization_of_left(value).map(Home::Organization).map_err(unreadable),
        Rule::Scope => scopes.home(key).ok_or_else(unnamed),
        Rule::ScopeInValue => scopes.home(value).ok_or_else(unnamed),
    }
}

/// Up to the first slash and with it, or the whole key.
fn kind(key: &[u8]) -> &[u8] {
    let end = key.iter().position(|byte| *byte == b'/').map_or(key.len(), |slash| slash + 1);
    &key[..end]
}

/// Names have no slash in them; whatever follows may be anything.
fn named(rest: &[u8]) -> Option<Identifier> {
    let name = rest.split(|byte| *byte == b'/').next()?;
    Identifier::parse(std::str::from_utf8(name).ok()?).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use testkit::format_4::format_4;

    const STORAGE: &str = include_str!("../../../docs/design/storage.md");

    fn known() -> BTreeSet<String> {
        KINDS.iter().map(|(kind, _)| String::from_utf8(kind.to_vec()).unwrap()).collect()
    }

    fn acme() -> Home {
        Home::Organization(Identifier::parse("acme").unwrap())
    }

    #[test]
    fn every_kind_of_the_table_of_records_has_a_rule_and_every_rule_a_row() {
        let rows = STORAGE.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let rows: BTreeSet<String> =
            rows.map(|key| String::from_utf8(kind(key.as_bytes()).to_vec()).unwrap()).collect();
        assert_eq!(rows, known());
    }

    /// The suite of all stores, with keys of its own, and the table itself.
    const OTHERS: [&str; 2] = ["conformance.rs", "homes.rs"];

    /// A kind is a literal of one to three letters with a slash in the source, outside of tests.
    #[test]
    fn every_kind_in_the_source_has_a_rule() {
        let mut found = BTreeSet::new();
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                if path.is_dir() {
                    folders.extend((name != "tests").then_some(path));
                } else if name.ends_with(".rs") && !name.ends_with("tests.rs") && !OTHERS.contains(&&*name) {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let code = text.split("#[cfg(test)]").next().unwrap();
                    let literals = code.split("b\"").skip(1).filter_map(|rest| rest.split('"').next());
                    let is_kind = |text: &&str| {
                        let letters = text.strip_suffix('/');
                        letters.is_some_and(|kind| {
                            (1..=3).contains(&kind.len()) && kind.bytes().all(|b| b.is_ascii_alphabetic())
                        })
                    };
                    found.extend(literals.filter(is_kind).map(str::to_owned));
                }
            }
        }
        assert_eq!(found.difference(&known()).collect::<Vec<_>>(), Vec::<&String>::new());
        assert!(found.len() > 35, "{found:?}");
    }

    #[test]
    fn a_key_that_names_an_organization_goes_there() {
        let none = Scopes::default();
        for (kind, rule) in KINDS.iter().filter(|(_, rule)| *rule == Rule::Named) {
            for rest in [&b"acme"[..], b"acme/web/review-1", b"acme/\xff\x00/\x2f\x2f", b"acme//TOKEN"] {
                let key = [kind, rest].concat();
                assert_eq!(home(&key, b"", &none), Ok(acme()), "{rule:?} {}", key.escape_ascii());
            }
            for rest in [&b""[..], b"/acme", b"\xff\xff/acme", b"No Name"] {
                let key = [kind, rest].concat();
                assert!(matches!(home(&key, b"", &none), Err(Stray::Name { .. })), "{}", key.escape_ascii());
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
            (&stranger, Vec::new(), Home::Nowhere),
            (b"x/00000001", answer.clone(), acme()),
            (b"x/00000001", stranger.clone(), Home::Nowhere),
            (b"en", Vec::new(), Home::Everywhere),
            (b"oa", Vec::new(), Home::Everywhere),
            (b"TR/00000000", Vec::new(), Home::Everywhere),
        ];
        for (key, value, expected) in cases {
            assert_eq!(home(key, &value, &scopes), Ok(expected), "{}", key.escape_ascii());
        }
        for (key, value) in [(&b"i/00000001"[..], &b"\xff"[..]), (b"g/00000001", b"")] {
            assert!(matches!(home(key, value, &scopes), Err(Stray::Value { .. })), "{}", key.escape_ascii());
        }
        for (key, value) in [(&b"k/short"[..], &b""[..]), (b"x/00000001", b"no key")] {
            assert!(matches!(home(key, value, &scopes), Err(Stray::Name { .. })), "{}", key.escape_ascii());
        }
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        for key in [&b"z/acme/1"[..], b"zz/acme", b"e", b"eno", b"", b"\xff"] {
            assert!(matches!(home(key, b"", &Scopes::default()), Err(Stray::Kind { .. })), "{}", key.escape_ascii());
        }
    }
}
