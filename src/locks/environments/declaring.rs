//! Environments that files declare: applied when they are new or have changed, and retired when they are no longer there.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Environments;
use crate::failure::Failure;
use crate::keys;
use domain::{Configuration, Configure, EnvironmentKey, Expected, Identifier, Rejection, Retire, Retired};
use records::stored::{Difference, differences};
use store::{Batch, Store, StoreError, commit_durably, for_each};

/// What the file of an organization last declared of each environment, in its stored form.
fn last_declared(
    store: &dyn Store,
    organization: &Identifier,
) -> Result<BTreeMap<EnvironmentKey, Vec<u8>>, StoreError> {
    let mut declared = BTreeMap::new();
    for_each(store, &keys::declarations_in(organization), |key, declaration| {
        let environment = keys::parse_environment(key, keys::DECLARATIONS);
        declared.extend(environment.map(|environment| (environment, declaration.to_vec())));
        Ok(())
    })?;
    Ok(declared)
}

/// How the environments that a file declares differ from those that it last declared.
pub fn environment_differences<'a>(
    store: &dyn Store,
    organization: &Identifier,
    declared: impl Iterator<Item = (EnvironmentKey, &'a Configuration)>,
) -> Result<BTreeMap<EnvironmentKey, Difference>, StoreError> {
    let form = |(key, configuration)| (key, records::encode_configuration(configuration));
    let exists = |key: &EnvironmentKey| match store.get(&keys::environment(key))? {
        Some(record) => Ok(records::is_of_existing(&record)?),
        None => Ok(false),
    };
    differences(last_declared(store, organization)?, declared.map(form), exists)
}

/// Whether an environment is out of service for this reason.
pub fn is_disabled_because(store: &dyn Store, key: &EnvironmentKey, reason: &str) -> Result<bool, StoreError> {
    match store.get(&keys::environment(key))? {
        Some(record) => Ok(records::is_disabled_because(&record, reason)?),
        None => Ok(false),
    }
}

impl Environments {
    /// Applies the configuration that a file declares if it is new or has changed; otherwise what the API set stays, also
    /// across restarts. Returns whether it was applied. Applying it again after a crash half-way does no harm.
    pub async fn declare(&self, key: &EnvironmentKey, configuration: Configuration) -> Result<bool, Failure> {
        let store = self.services().store();
        let declaration = records::encode_configuration(&configuration);
        let declared = keys::declaration(key);
        if store.get(&declared)?.as_ref() == Some(&declaration) {
            return Ok(false);
        }
        self.configure(key, Configure { configuration, expected: None }).await?;
        let mut batch = Batch::default();
        batch.put(declared, declaration);
        commit_durably(store, batch).await?;
        Ok(true)
    }

    /// Takes an environment that its file no longer declares a step further out of service; see [`Retire`]. When it is gone, so
    /// is the mark that it was declared: the caller keeps others from creating it in between. Until then the mark is empty, so
    /// that a file that declares it again is applied and puts it back into service.
    pub async fn retire(&self, key: &EnvironmentKey, reason: &Arc<str>) -> Result<Retired, Failure> {
        self.clear_mark(key).await?;
        let retired = match self.ask(key, Retire { reason: reason.clone() }).await {
            Err(Failure::Rejected(Rejection::EnvironmentNotFound)) => Retired::Gone,
            other => other?,
        };
        if retired == Retired::Gone {
            self.forget_declared(key).await?;
        }
        Ok(retired)
    }

    /// Puts an environment back into service that was being retired for this reason, if it still is.
    pub async fn reinstate(&self, key: &EnvironmentKey, reason: &str) -> Result<bool, Failure> {
        let Some(environment) = self.environment(key)? else { return Ok(false) };
        let retiring = environment.configuration.as_deref().filter(|configuration| configuration.disabled);
        let Some(retiring) = retiring.filter(|_| environment.disabled_reason.as_deref() == Some(reason)) else {
            return Ok(false);
        };
        let configuration = Configuration { disabled: false, ..retiring.clone() };
        let expected = Some(Expected::Revisions(vec![environment.configuration_revision]));
        match self.configure(key, Configure { configuration, expected }).await {
            // Somebody has changed or deleted it in this moment: what they set holds.
            Err(Failure::Rejected(Rejection::ConfigurationChanged { .. })) => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Makes the mark of an environment different from every declaration.
    async fn clear_mark(&self, key: &EnvironmentKey) -> Result<(), StoreError> {
        let (store, mark) = (self.services().store(), keys::declaration(key));
        if store.get(&mark)?.is_none_or(|declaration| declaration.is_empty()) {
            return Ok(());
        }
        let mut batch = Batch::default();
        batch.put(mark, Vec::new());
        commit_durably(store, batch).await
    }

    /// Forgets that a file declared an environment that does not exist any more.
    pub async fn forget_declared(&self, key: &EnvironmentKey) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.delete(keys::declaration(key));
        commit_durably(self.services().store(), batch).await
    }
}
