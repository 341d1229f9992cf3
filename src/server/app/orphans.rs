//! Data that a crash can leave without an owner.

use std::collections::BTreeSet;

use accounts::secrets::{SecretError, Vault};
use domain::{Identifier, PipelineKey, Timestamp};
use events::Cause;
use locks::pipelines::Pipelines;

/// Deletes the secrets of pipelines whose deletion was interrupted.
pub async fn delete_secrets(
    vault: &Vault,
    pipelines: &Pipelines,
    organizations: impl IntoIterator<Item = &Identifier>,
    now: Timestamp,
) -> Result<(), SecretError> {
    for organization in organizations {
        let scopes: BTreeSet<_> = vault.list(organization, None)?.into_iter().filter_map(|s| s.pipeline).collect();
        for pipeline in scopes.into_iter().filter(|id| pipelines.get(organization, id.as_str()).is_none()) {
            tracing::info!(%organization, %pipeline, "deleting the secrets of a deleted pipeline");
            let key = PipelineKey { organization: organization.clone(), pipeline };
            vault.delete_pipeline(&key, Cause::system(now)).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use super::*;
    use accounts::secrets::{MasterKey, NewSecret, SecretValue};
    use domain::{Blueprint, Description, VariableName};
    use locks::pipelines::{Declared, Definition};
    use store::{MemoryStore, Store};

    fn id(text: &str) -> Identifier {
        Identifier::parse(text).unwrap()
    }

    #[actix::test]
    async fn only_the_secrets_of_deleted_pipelines_are_deleted() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let now = Timestamp::from_millis(0);
        let key = PipelineKey { organization: id("acme"), pipeline: id("web") };
        let blueprint = Arc::new(Blueprint::default());
        let definition = Definition { name: "web".to_owned(), slug: id("web"), blueprint, repository: None };
        let pipelines = Pipelines::open(store.clone(), vec![Declared { key, definition }], now).await.unwrap();
        let vault = Vault::open(store, MasterKey::parse(&"7".repeat(64)).unwrap()).unwrap();
        for pipeline in [None, Some("web"), Some("gone")] {
            let new = NewSecret {
                pipeline: pipeline.map(id),
                name: VariableName::parse("KEY").unwrap(),
                value: SecretValue::parse("value").unwrap(),
                description: Description::parse("").unwrap(),
            };
            vault.create(&id("acme"), new, Cause::system(now), |_, _| {}).await.unwrap();
        }
        delete_secrets(&vault, &pipelines, [&id("acme")], now).await.unwrap();
        let left: Vec<_> = vault.list(&id("acme"), None).unwrap().into_iter().map(|secret| secret.pipeline).collect();
        assert_eq!(left, [None, Some(id("web"))]);
    }
}
