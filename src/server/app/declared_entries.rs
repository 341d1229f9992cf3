//! What the file of an organization last declared beside members, pipelines and environments: its name, its providers and its
//! issuers of identity tokens. They count as they are in the file; the record only tells what a start or a reload changes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::config::Organization;
use domain::Identifier;
use records::stored::{Difference, differences};
use store::record::{self, records};
use store::{Batch, Store, StoreError, commit_durably};

records! { EntriesV1 = "declared entries of an organization" }

/// Each entry in words. They are only compared: a newer program that words one differently says once that it has changed.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntriesV1 {
    name: String,
    providers: BTreeMap<String, String>,
    issuers: BTreeMap<String, String>,
}

/// How the entries of a file differ from those that were applied last, as kind, name and difference.
pub struct Changes {
    pub name: Option<String>,
    pub entries: Vec<(&'static str, String, Difference)>,
}

/// `OD/{organization}`
fn key(organization: &Identifier) -> Vec<u8> {
    [b"OD/", organization.as_str().as_bytes()].concat()
}

fn entries_of(organization: &Organization) -> EntriesV1 {
    let mut entries = EntriesV1 { name: organization.name.clone(), ..EntriesV1::default() };
    for provider in &organization.providers {
        // Without the client secret, which its `Debug` does not show.
        entries.providers.insert(provider.id.to_string(), format!("{provider:?}"));
    }
    for issuer in &organization.identities {
        *entries.issuers.entry(issuer.issuer.clone()).or_default() += &format!("{issuer:?}");
    }
    entries
}

fn last(store: &dyn Store, organization: &Identifier) -> Result<Option<EntriesV1>, StoreError> {
    let key = key(organization);
    let record = store.get(&key)?;
    record.map(|record| record::decode(&record).map_err(|error| error.under(&key))).transpose()
}

pub fn changes(store: &dyn Store, organization: &Organization) -> Result<Changes, StoreError> {
    let before = last(store, &organization.id)?;
    let is_renamed = before.as_ref().is_some_and(|before| before.name != organization.name);
    let (before, now) = (before.unwrap_or_default(), entries_of(organization));
    let mut entries = Vec::new();
    for (kind, before, now) in [("provider", before.providers, now.providers), ("issuer", before.issuers, now.issuers)]
    {
        let known: BTreeSet<_> = before.keys().cloned().collect();
        let found = differences(before, now, |name| Ok(known.contains(name)))?;
        entries.extend(found.into_iter().map(|(name, difference)| (kind, name, difference)));
    }
    Ok(Changes { name: is_renamed.then(|| organization.name.clone()), entries })
}

/// Notes what has been applied.
pub async fn note(store: &dyn Store, organizations: &[Organization]) -> Result<(), StoreError> {
    let mut batch = Batch::default();
    for organization in organizations {
        let entries = entries_of(organization);
        if last(store, &organization.id)?.as_ref() != Some(&entries) {
            batch.put(key(&organization.id), record::encode(&entries));
        }
    }
    if batch.is_empty() { Ok(()) } else { commit_durably(store, batch).await }
}
