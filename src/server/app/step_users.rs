//! The user ids of organizations, for their steps if the server runs as root. An organization keeps its id permanently,
//! so that no other organization can read its files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::ServeError;
use crate::config::UserRange;
use domain::Identifier;
use store::keys::STEP_USERS;
use store::record::{self, Record};
use store::{Batch, Store, StoreError, commit_durably, end_of_prefix, sync_dir};

/// In the data directory of a node of a cluster.
const FILE: &str = "step-users";
const FILE_BEING_WRITTEN: &str = "step-users.new";
/// More than there have ever been organizations.
const RECORDS_MAX: usize = 1_000_000;

#[derive(Serialize, Deserialize)]
struct StepUser {
    id: u32,
}

/// The users of all organizations that this node has ever run steps for.
#[derive(Serialize, Deserialize)]
struct NodeUsers {
    users: BTreeMap<String, u32>,
}

impl Record<'_> for NodeUsers {
    const KIND: &'static str = "step users of a node";
}

impl Record<'_> for StepUser {
    const KIND: &'static str = "step user";

    fn usual_bytes(&self) -> usize {
        8
    }
}

/// The users of these organizations; assigns and stores missing ones, under the keys `ru/{organization}`.
pub async fn open<'a>(
    store: &dyn Store,
    organizations: impl IntoIterator<Item = &'a Identifier>,
    range: UserRange,
) -> Result<BTreeMap<Identifier, u32>, ServeError> {
    let known = known(store)?;
    let users = assign(&known, organizations, range)?;
    let mut batch = Batch::default();
    for (organization, id) in users.iter().filter(|(organization, id)| known.get(organization.as_str()) != Some(id)) {
        batch.put([STEP_USERS, organization.as_str().as_bytes()].concat(), record::encode(&StepUser { id: *id }));
    }
    commit_durably(store, batch).await?;
    Ok(users)
}

/// The same for a node of a cluster, which has its own files and therefore its own users.
pub fn open_in<'a>(
    data_dir: &Path,
    organizations: impl IntoIterator<Item = &'a Identifier>,
    range: UserRange,
) -> Result<BTreeMap<Identifier, u32>, ServeError> {
    let file = data_dir.join(FILE);
    let known = match std::fs::read(&file) {
        Ok(bytes) => record::decode::<NodeUsers>(&bytes).map_err(StoreError::from)?.users,
        Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => return Err(error.into()),
    };
    let users = assign(&known, organizations, range)?;
    let mut all = known.clone();
    all.extend(users.iter().map(|(organization, id)| (organization.as_str().to_owned(), *id)));
    if all != known {
        let being_written = data_dir.join(FILE_BEING_WRITTEN);
        let mut out = File::create(&being_written)?;
        out.write_all(&record::encode(&NodeUsers { users: all }))?;
        out.sync_all()?;
        std::fs::rename(&being_written, &file)?;
        sync_dir(data_dir)?;
    }
    Ok(users)
}

fn known(store: &dyn Store) -> Result<BTreeMap<String, u32>, StoreError> {
    let mut known = BTreeMap::new();
    for (key, value) in store.scan(STEP_USERS, &end_of_prefix(STEP_USERS), RECORDS_MAX)? {
        let organization = String::from_utf8_lossy(&key[STEP_USERS.len()..]).into_owned();
        known.insert(organization, record::decode::<StepUser>(&value)?.id);
    }
    Ok(known)
}

/// An organization keeps its user if the range contains it; others get the lowest user that nobody ever had.
fn assign<'a>(
    known: &BTreeMap<String, u32>,
    organizations: impl IntoIterator<Item = &'a Identifier>,
    range: UserRange,
) -> Result<BTreeMap<Identifier, u32>, ServeError> {
    let taken: BTreeSet<u32> = known.values().copied().collect();
    let mut free = (range.first..=range.last).filter(|id| !taken.contains(id));
    let mut users = BTreeMap::new();
    for organization in organizations {
        let kept = known.get(organization.as_str()).copied().filter(|id| (range.first..=range.last).contains(id));
        let Some(id) = kept.or_else(|| free.next()) else {
            let advice = "each organization keeps its own for ever; widen the range";
            let refusal = format!("runner.user_range has no user left for the steps of `{organization}`: {advice}");
            return Err(ServeError::Isolation(refusal));
        };
        users.insert(organization.clone(), id);
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use store::MemoryStore;

    fn id(text: &str) -> Identifier {
        Identifier::parse(text).unwrap()
    }

    #[actix::test]
    async fn an_organization_keeps_its_user_and_no_other_ever_gets_it() {
        let store = MemoryStore::default();
        let (acme, beta, gamma) = (id("acme"), id("beta"), id("gamma"));
        let range = UserRange { first: 5_000, last: 5_002 };
        let users = open(&store, [&acme, &beta], range).await.unwrap();
        assert_eq!(users.values().copied().collect::<Vec<_>>(), [5_000, 5_001]);
        // Without `acme`, then with it again.
        let users = open(&store, [&gamma, &beta], range).await.unwrap();
        assert_eq!((users[&gamma], users[&beta]), (5_002, 5_001));
        let users = open(&store, [&beta, &acme], range).await.unwrap();
        assert_eq!((users[&acme], users[&beta]), (5_000, 5_001));
        let refused = open(&store, [&id("delta")], range).await.unwrap_err().to_string();
        assert!(refused.contains("no user left for the steps of `delta`"), "{refused}");
    }

    #[actix::test]
    async fn another_range_gives_other_users() {
        let store = MemoryStore::default();
        let (acme, beta) = (id("acme"), id("beta"));
        open(&store, [&acme], UserRange { first: 5_000, last: 5_000 }).await.unwrap();
        let users = open(&store, [&beta, &acme], UserRange { first: 6_000, last: 6_009 }).await.unwrap();
        assert_eq!((users[&beta], users[&acme]), (6_000, 6_001));
    }
}
