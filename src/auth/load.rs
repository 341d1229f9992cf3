//! Reads members, declarations and tokens from the store at a start.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::member::{Member, NewMember};
use super::stored;
use super::token::Token;
use crate::domain::{Identifier, Role, UserId};
use crate::store::{Store, StoreError, end_of_prefix};

/// The roles that files last declared, by organization and name.
pub type Declarations = BTreeMap<(Identifier, Identifier), Role>;

/// The members of the organizations that are declared.
pub fn members(store: &dyn Store, declared: &[NewMember]) -> Result<HashMap<UserId, Arc<Member>>, StoreError> {
    let organizations: BTreeSet<_> = declared.iter().map(|member| &member.organization).collect();
    let mut members = HashMap::new();
    for (key, record) in store.scan(stored::MEMBERS, &end_of_prefix(stored::MEMBERS), usize::MAX)? {
        let member = stored::decode_member(&key, &record).ok_or_else(|| unreadable("member", &key))?;
        if organizations.contains(&member.organization) {
            members.insert(member.id, Arc::new(member));
        }
    }
    Ok(members)
}

pub fn declarations(store: &dyn Store, organizations: &BTreeSet<Identifier>) -> Result<Declarations, StoreError> {
    let mut declarations = Declarations::new();
    for (key, record) in store.scan(stored::DECLARATIONS, &end_of_prefix(stored::DECLARATIONS), usize::MAX)? {
        let (member, role) =
            stored::decode_declaration(&key, &record).ok_or_else(|| unreadable("declaration", &key))?;
        if organizations.contains(&member.0) {
            declarations.insert(member, role);
        }
    }
    Ok(declarations)
}

/// Of all organizations. Tokens of an undeclared one authenticate nobody, since it has no members in memory.
pub fn tokens(store: &dyn Store) -> Result<Vec<Token>, StoreError> {
    let records = store.scan(stored::TOKENS, &end_of_prefix(stored::TOKENS), usize::MAX)?;
    let token = |(key, record): &(Vec<u8>, Vec<u8>)| {
        // The end of its key is an id, not text.
        stored::decode_token(record).ok_or_else(|| unreadable("token", &key[..key.len().saturating_sub(12)]))
    };
    records.iter().map(token).collect()
}

/// Refused rather than replaced: a new member would not have the old one's tokens and sessions.
fn unreadable(what: &str, key: &[u8]) -> StoreError {
    let key = String::from_utf8_lossy(key);
    StoreError::Read(format!("the record {key} of a {what} does not have the form of its version"))
}
