//! The key space: every kind of record, by its key prefix. A new kind of record needs a row here;
//! docs/design/storage.md shows the table.
//!
//! A key begins with its kind. A kind that ends with a slash is followed by more parts. Names contain no slash, so no
//! key is a prefix of another.

/// How the organization of a record is found. Records move to a cluster with their organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerRule {
    /// The organization is the second part of the key.
    Named,
    /// The record has no organization: each store has one, or it belongs to the process. It is copied everywhere.
    Everywhere,
    /// The organization of the environment that the record points to.
    Pointer,
    /// The organization of the session in the record.
    Left,
    /// The organization of the token in the key, or of the member that jobs act as.
    Token,
}

/// A kind of record.
#[derive(Debug)]
pub struct Kind {
    /// The beginning of all keys of this kind.
    pub prefix: &'static [u8],
    /// The part of the key after the prefix.
    pub rest: &'static str,
    pub owner: OwnerRule,
    /// The crate that stores records of this kind.
    pub stored_by: &'static str,
    /// The content of a record.
    pub is: &'static str,
}

macro_rules! key_space {
    ($($stored_by:ident { $($name:ident = $prefix:literal $rest:literal $owner:ident, $is:literal;)* })*) => {
        /// All kinds, grouped by crate.
        pub const KINDS: &[Kind] = &[$($(Kind {
            prefix: $name,
            rest: $rest,
            owner: OwnerRule::$owner,
            stored_by: stringify!($stored_by),
            is: $is,
        }),*),*];

        $($(#[doc = concat!("`", $prefix, $rest, "`: ", $is)] pub const $name: &[u8] = $prefix.as_bytes();)*)*
    };
}

key_space! {
    locks {
        ENVIRONMENTS = "e/" "{organization}/{pipeline}/{environment}" Named, "an environment";
        NEW_ENVIRONMENTS = "en" "" Everywhere, "fencing tokens that new environments skip";
        HISTORY = "h/" "{organization}/{pipeline}/{environment}/{page}" Named, "ended sessions, eight fencing tokens per page";
        WAITERS = "q/" "{organization}/{pipeline}/{environment}/{ticket}" Named, "a stored waiter";
        POOL_WAITERS = "p/" "{organization}/{pipeline}/{ticket}" Named, "a stored waiter for any environment";
        POINTERS = "i/" "{ticket}" Pointer, "pointer to a session that was queued";
        LEFT = "g/" "{ticket}" Left, "a session that ended in a queue";
        WAKES = "l/" "{organization}/{pipeline}/{environment}" Named, "the environment's next deadline";
        DECLARED_ENVIRONMENTS = "d/" "{organization}/{pipeline}/{environment}" Named, "its last declaration in a file";
        DEPLOYMENTS = "D/" "{organization}/{deployment, inverted}" Named, "a deployment with its stages and steps; newest first";
        BLUEPRINTS = "b/" "{organization}/{deployment}" Named, "its blueprint";
        APPROVALS = "A/" "{organization}/{approval, inverted}" Named, "an approval; newest first";
        APPROVALS_OF_DEPLOYMENTS = "a/" "{organization}/{deployment}" Named, "the approvals of a deployment";
        LOG_PARTS = "n/" "{organization}/{deployment}" Named, "the parts of its log, in a cluster";
        DROPPED_LOGS = "nd/" "{organization}/{deployment}" Named, "the same after it was dropped";
        UNFINISHED = "r/" "{organization}/{pipeline}/{environment}" Named, "marks an unfinished deployment";
        PIPELINES = "P/" "{organization}/{pipeline}" Named, "a pipeline";
        DECLARED_PIPELINES = "PD/" "{organization}/{pipeline}" Named, "its last declaration in a file";
        ANSWERS = "k/" "{token}{idempotency key}" Token, "the answer to a keyed request";
        ANSWERS_IN_ORDER = "xo/" "{organization}/{number}" Named, "its place in the order";
    }
    events {
        JOURNAL_PAGES = "E/" "{organization}/{page, inverted}" Named, "32 events with their hashes; newest first";
        JOURNAL_HEADS = "EH/" "{organization}" Named, "the journal's end";
        FIRST_EVENTS = "EF/" "{organization}" Named, "the first kept event's number";
        ARCHIVE_PAGES = "EA/" "{organization}/{class}/{page, inverted}" Named, "archived security events, 32 per page";
        ARCHIVE_HEADS = "EB/" "{organization}/{class}" Named, "that list's ends and HMAC";
        SEALS = "EM/" "{organization}/{number, inverted}" Named, "a seal";
        LOST_HEADS = "EL/" "{organization}/{number}" Named, "evidence of a wrong end";
    }
    accounts {
        TOKENS = "t/" "{organization}/{token}" Named, "an API token, hashed";
        SIGN_INS = "TS/" "{organization}/{token}" Named, "a sign-in";
        EXCHANGED_TOKENS = "TX/" "{organization}/{token}" Named, "an exchanged token";
        IDENTITY_USES = "TI/" "{organization}/{hash}" Named, "exchanges of an identity token";
        // The first organization in the settings would own it, which may change.
        REVOKED_BOOTSTRAP = "TR/" "{hash}" Everywhere, "a revoked bootstrap token";
        MEMBERS = "u/" "{organization}/{name}" Named, "a member";
        DECLARED_MEMBERS = "UD/" "{organization}/{name}" Named, "a member's declared role";
        CREDENTIALS = "UC/" "{organization}/{name}" Named, "its password hash and invitation";
        PROVIDER_LINKS = "UL/" "{organization}/{name}" Named, "its identity at a provider";
        SEALED_VALUES = "se/" "{organization}/{name}" Named, "a value that another part sealed";
        SECRETS = "s/" "{organization}/{pipeline, or nothing}/{name}" Named, "a secret";
        DATA_KEYS = "o/" "{organization}" Named, "the organization's data keys, wrapped";
        AUDIT_KEY = "oa" "" Everywhere, "the audit key, sealed";
    }
    webhooks {
        WEBHOOKS = "wh/" "{organization}/{webhook}" Named, "a webhook";
        WEBHOOK_PROGRESS = "wc/" "{organization}/{webhook}" Named, "its cursor and pending deliveries";
        DELIVERIES = "wd/" "{organization}/{webhook}/{delivery, inverted}" Named, "a delivery with its attempts";
    }
    delivery {
        REGISTRIES = "R/" "{organization}/{registry}" Named, "a step registry";
    }
    analysis {
        ANALYSES = "N/" "{organization}/{analysis, inverted}" Named, "an analysis and its fix";
    }
    server {
        DECLARED_ORGANIZATIONS = "OD/" "{organization}" Named, "the organization's last declaration";
        STEP_USERS = "ru/" "{organization}" Named, "the user id of the organization's steps";
    }
}

impl Kind {
    /// The kind of the record under this key, if known.
    pub fn of(key: &[u8]) -> Option<&'static Self> {
        let end = key.iter().position(|byte| *byte == b'/').map_or(key.len(), |slash| slash + 1);
        KINDS.iter().find(|kind| kind.prefix == &key[..end])
    }
}

/// `{prefix}{organization}/`: the beginning of all keys of this kind in an organization.
pub fn in_organization(prefix: &[u8], organization: &str) -> Vec<u8> {
    [prefix, organization.as_bytes(), b"/"].concat()
}

/// The second part of a key. Ends at the next slash, since names contain none.
pub fn organization_in<'a>(prefix: &[u8], key: &'a [u8]) -> Option<&'a str> {
    let name = key.strip_prefix(prefix)?.split(|byte| *byte == b'/').next()?;
    std::str::from_utf8(name).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    const STORAGE: &str = include_str!("../../docs/design/storage.md");

    fn text(kind: &Kind) -> &'static str {
        std::str::from_utf8(kind.prefix).unwrap()
    }

    #[test]
    fn the_design_shows_this_table() {
        let rows: String = KINDS
            .iter()
            .map(|kind| format!("| `{}{}` | {} | `{}` |\n", text(kind), kind.rest, kind.is, kind.stored_by))
            .collect();
        let table = format!("| key | value | stored by |\n|---|---|---|\n{rows}\n");
        assert!(STORAGE.contains(&table), "docs/design/storage.md must have this table:\n\n{table}");
    }

    #[test]
    fn every_key_has_one_kind() {
        let prefixes: BTreeSet<_> = KINDS.iter().map(|kind| kind.prefix).collect();
        assert_eq!(prefixes.len(), KINDS.len());
        for kind in KINDS {
            assert_eq!(kind.prefix.ends_with(b"/"), !kind.rest.is_empty(), "{}", text(kind));
            assert_eq!(kind.rest.starts_with("{organization}"), kind.owner == OwnerRule::Named, "{}", text(kind));
            assert_eq!(Kind::of(&[kind.prefix, kind.rest.as_bytes()].concat()).unwrap().prefix, kind.prefix);
        }
        for unknown in [&b"z/acme/1"[..], b"zz/acme", b"e", b"eno", b"", b"\xff"] {
            assert!(Kind::of(unknown).is_none());
        }
    }

    /// The conformance suite and the keys of the etcd engine are separate key spaces.
    const OTHERS: [&str; 3] = ["conformance.rs", "engine/etcd/keys.rs", "store/keys.rs"];

    /// Searches the source, outside of tests, for literals of one to three letters with a slash.
    #[test]
    fn no_kind_is_named_elsewhere() {
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                if path.is_dir() {
                    folders.extend((name != "tests").then_some(path));
                } else if name.ends_with(".rs")
                    && !name.ends_with("tests.rs")
                    && !OTHERS.iter().any(|it| path.ends_with(it))
                {
                    let source = std::fs::read_to_string(&path).unwrap();
                    let code = source.split("#[cfg(test)]").next().unwrap();
                    let mut literals = code.split("b\"").skip(1).filter_map(|rest| rest.split('"').next());
                    let is_kind = |text: &&str| {
                        let letters = text.strip_suffix('/');
                        letters.is_some_and(|kind| {
                            (1..=3).contains(&kind.len()) && kind.bytes().all(|b| b.is_ascii_alphabetic())
                        })
                    };
                    assert_eq!(literals.find(is_kind), None, "{} belongs to the table of keys", path.display());
                }
            }
        }
    }
}
