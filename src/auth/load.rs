//! What a start finds in the store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::member::{Member, NewMember};
use super::stored;
use super::token::Token;
use crate::domain::{Identifier, Role, UserId};
use crate::store::{Store, StoreError, end_of_prefix};

/// What files last declared of members, by organization and name.
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

/// What files last declared of these organizations.
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

/// Of all organizations. Those of one that is not declared let nobody in, since it has no members.
pub fn tokens(store: &dyn Store) -> Result<Vec<Token>, StoreError> {
    let records = store.scan(stored::TOKENS, &end_of_prefix(stored::TOKENS), usize::MAX)?;
    let token = |(key, record): &(Vec<u8>, Vec<u8>)| {
        // The end of its key is an id, not text.
        stored::decode_token(record).ok_or_else(|| unreadable("token", &key[..key.len().saturating_sub(12)]))
    };
    records.iter().map(token).collect()
}

/// A new member in the place of one that cannot be read would be parted from their tokens and sessions.
fn unreadable(what: &str, key: &[u8]) -> StoreError {
    let key = String::from_utf8_lossy(key);
    StoreError::Read(format!("the record {key} of a {what} does not have the form of its version"))
}
