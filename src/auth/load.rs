//! Reads members, declarations and tokens from the store at a start.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::member::{Declaration, Member, NewMember};
use super::stored;
use super::token::Token;
use crate::domain::{Identifier, UserId};
use crate::store::{Store, StoreError, end_of_prefix};

/// What files last declared, by organization and name.
pub type Declarations = BTreeMap<(Identifier, Identifier), Declaration>;

/// The members of the organizations that are declared.
pub fn members(store: &dyn Store, declared: &[NewMember]) -> Result<HashMap<UserId, Arc<Member>>, StoreError> {
    let organizations: BTreeSet<_> = declared.iter().map(|member| &member.organization).collect();
    let mut members = HashMap::new();
    for (key, record) in store.scan(stored::MEMBERS, &end_of_prefix(stored::MEMBERS), usize::MAX)? {
        // A new member in the place of an unreadable one would be parted from their tokens and sessions.
        let member = stored::decode_member(&key, &record).map_err(|error| error.under(&key))?;
        if organizations.contains(&member.organization) {
            members.insert(member.id, Arc::new(member));
        }
    }
    Ok(members)
}

pub fn declarations(store: &dyn Store, organizations: &BTreeSet<Identifier>) -> Result<Declarations, StoreError> {
    let mut declarations = Declarations::new();
    for (key, record) in store.scan(stored::DECLARATIONS, &end_of_prefix(stored::DECLARATIONS), usize::MAX)? {
        let (member, declaration) = stored::decode_declaration(&key, &record).map_err(|error| error.under(&key))?;
        if organizations.contains(&member.0) {
            declarations.insert(member, declaration);
        }
    }
    Ok(declarations)
}

/// Of all organizations. Tokens of an undeclared one authenticate nobody, since it has no members in memory.
pub fn tokens(store: &dyn Store) -> Result<Vec<Token>, StoreError> {
    let records = store.scan(stored::TOKENS, &end_of_prefix(stored::TOKENS), usize::MAX)?;
    records.iter().map(|(key, record)| stored::decode_token(record).map_err(|error| error.under(key))).collect()
}
