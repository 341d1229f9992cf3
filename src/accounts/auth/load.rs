//! Loads members, their provider links, their credentials, declarations and tokens from the store at a start.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::exchange_records::{IdentityKey, IdentityUse};
use super::member::{Declaration, Member, MembersById, NewMember, ProviderLink};
use super::password::Credentials;
use super::token::Token;
use super::{exchange_records, stored};
use domain::{IdSeed, Identifier, UserId};
use store::keys;
use store::record::RecordError;
use store::{Store, StoreError, end_of_prefix};

/// The last declarations of files, by organization and name.
pub type Declarations = BTreeMap<(Identifier, Identifier), Declaration>;

/// The members of the declared organizations.
pub fn members(store: &dyn Store, declared: &[NewMember]) -> Result<MembersById, StoreError> {
    let organizations: BTreeSet<_> = declared.iter().map(|member| &member.organization).collect();
    let mut links = links(store)?;
    let mut members = MembersById::default();
    for (key, record) in store.scan(keys::MEMBERS, &end_of_prefix(keys::MEMBERS), usize::MAX)? {
        // A new member in the place of an unreadable one would be parted from their tokens and sessions.
        let member = stored::decode_member(&key, &record).map_err(|error| error.under(&key))?;
        if organizations.contains(&member.organization) {
            let link = links.remove(&(member.organization.clone(), member.name.clone()));
            members.insert(member.id, Arc::new(Member { link, ..member }));
        }
    }
    Ok(members)
}

fn links(store: &dyn Store) -> Result<HashMap<(Identifier, Identifier), ProviderLink>, StoreError> {
    let records = store.scan(keys::PROVIDER_LINKS, &end_of_prefix(keys::PROVIDER_LINKS), usize::MAX)?;
    records.iter().map(|(key, record)| stored::decode_link(key, record).map_err(|error| error.under(key))).collect()
}

pub fn declarations(store: &dyn Store, organizations: &BTreeSet<Identifier>) -> Result<Declarations, StoreError> {
    let mut declarations = Declarations::new();
    for (key, record) in store.scan(keys::DECLARED_MEMBERS, &end_of_prefix(keys::DECLARED_MEMBERS), usize::MAX)? {
        let (member, declaration) = stored::decode_declaration(&key, &record).map_err(|error| error.under(&key))?;
        if organizations.contains(&member.0) {
            declarations.insert(member, declaration);
        }
    }
    Ok(declarations)
}

/// All tokens, sign-ins and job tokens of all organizations. Those of an undeclared organization authenticate nobody,
/// since it has no members in memory.
pub fn tokens(store: &dyn Store) -> Result<Vec<Token>, StoreError> {
    let read = |kind: &[u8], decode: fn(&[u8]) -> Result<Token, RecordError>| {
        let records = store.scan(kind, &end_of_prefix(kind), usize::MAX)?;
        let tokens = records.iter().map(|(key, record)| decode(record).map_err(|error| error.under(key)));
        tokens.collect::<Result<Vec<_>, StoreError>>()
    };
    let mut tokens = read(keys::TOKENS, stored::decode_token)?;
    tokens.append(&mut read(keys::SIGN_INS, stored::decode_sign_in)?);
    tokens.append(&mut read(keys::EXCHANGED_TOKENS, exchange_records::decode_exchanged)?);
    Ok(tokens)
}

/// Visits every scope of retries (`Caller::retry_scope`) of all organizations: tokens, and members as whom jobs act.
pub fn retry_scopes(store: &dyn Store, mut visit: impl FnMut(IdSeed, Identifier)) -> Result<(), StoreError> {
    tokens(store)?.into_iter().for_each(|token| visit(token.id.0, token.organization));
    for (key, record) in store.scan(keys::MEMBERS, &end_of_prefix(keys::MEMBERS), usize::MAX)? {
        let member = stored::decode_member(&key, &record).map_err(|error| error.under(&key))?;
        visit(member.id.0, member.organization);
    }
    Ok(())
}

pub fn identities(store: &dyn Store) -> Result<HashMap<IdentityKey, IdentityUse>, StoreError> {
    let records = store.scan(keys::IDENTITY_USES, &end_of_prefix(keys::IDENTITY_USES), usize::MAX)?;
    let decode = |(key, record): &(_, _)| {
        let (key, record): (&Vec<u8>, &Vec<u8>) = (key, record);
        exchange_records::decode_identity(key, record).map_err(|error| error.under(key))
    };
    records.iter().map(decode).collect()
}

/// The credentials of the members in memory.
pub fn credentials(store: &dyn Store, members: &MembersById) -> Result<HashMap<UserId, Arc<Credentials>>, StoreError> {
    let by_name: HashMap<_, _> = members.values().map(|m| ((&m.organization, &m.name), m.id)).collect();
    let mut found = HashMap::new();
    for (key, record) in store.scan(keys::CREDENTIALS, &end_of_prefix(keys::CREDENTIALS), usize::MAX)? {
        let (member, credentials) = stored::decode_credentials(&key, &record).map_err(|error| error.under(&key))?;
        if let Some(id) = by_name.get(&(&member.0, &member.1)) {
            found.insert(*id, Arc::new(credentials));
        }
    }
    Ok(found)
}
