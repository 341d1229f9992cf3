//! What a start makes of the store: each declared member's id, and the tokens of those who are still members.

use std::collections::{HashMap, HashSet};

use super::accounts::{Member, Token};
use super::stored;
use crate::domain::{IdSeed, UserId};
use crate::entropy;
use crate::store::{Batch, Store, StoreError, durable_up_to, end_of_prefix};

/// The members by their ids. A name that was never declared before gets a new one.
pub async fn members(store: &dyn Store, declared: Vec<Member>) -> Result<HashMap<UserId, Member>, StoreError> {
    let mut members = HashMap::with_capacity(declared.len());
    let mut new = Vec::new();
    for member in declared {
        let key = stored::member_key(&member.organization, &member.name);
        let id = match store.get(&key)? {
            Some(record) => known_id(record, &member)?,
            None => {
                let id = entropy::id_seed();
                new.push((key, id));
                id
            }
        };
        members.insert(UserId(id), member);
    }
    commit_in_parts(store, &new, |batch, (key, id)| batch.put(key.clone(), id.0.to_vec())).await?;
    Ok(members)
}

/// A new id in the place of one that cannot be read would part the member from their tokens and sessions.
fn known_id(record: Vec<u8>, member: &Member) -> Result<IdSeed, StoreError> {
    record.try_into().map(IdSeed).map_err(|record: Vec<u8>| {
        let (organization, name, bytes) = (&member.organization, &member.name, record.len());
        StoreError::Read(format!("the id of the member {name} of {organization} has {bytes} bytes"))
    })
}

/// All tokens but those of users whom their organization no longer declares. These are deleted for good: an id stays
/// with its name, so they would come back to life with the next member of that name, who may be somebody else. An
/// organization that is not declared at all is more likely a slip than a wish, and keeps its tokens, which let nobody in.
pub async fn tokens(store: &dyn Store, members: &HashMap<UserId, Member>) -> Result<Vec<Token>, StoreError> {
    let mut tokens = Vec::new();
    for (_, record) in store.scan(stored::TOKENS, &end_of_prefix(stored::TOKENS), usize::MAX)? {
        let token = stored::decode_token(&record)
            .ok_or_else(|| StoreError::Read("a token's record does not have the form of its version".to_owned()))?;
        tokens.push(token);
    }
    let declared: HashSet<_> = members.values().map(|member| &member.organization).collect();
    let is_kept = |token: &Token| members.contains_key(&token.user) || !declared.contains(&token.organization);
    let (kept, orphaned): (Vec<_>, Vec<_>) = tokens.into_iter().partition(is_kept);
    commit_in_parts(store, &orphaned, |batch, token| batch.delete(stored::token_key(&token.organization, token.id)))
        .await?;
    if !orphaned.is_empty() {
        tracing::info!(tokens = orphaned.len(), "deleted the tokens of users who are no longer members");
    }
    Ok(kept)
}

async fn commit_in_parts<T>(
    store: &dyn Store,
    changes: &[T],
    hand_in: impl Fn(&mut Batch, &T),
) -> Result<(), StoreError> {
    for part in changes.chunks(stored::RECORDS_AT_ONCE) {
        let mut batch = Batch::default();
        part.iter().for_each(|change| hand_in(&mut batch, change));
        let sequence = store.commit(batch)?;
        durable_up_to(store, sequence).await;
    }
    Ok(())
}
