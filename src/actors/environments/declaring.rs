//! Environments that a file declares. A declaration is applied when it is new or has changed; otherwise what the API set
//! stays, also across restarts.

use super::Environments;
use crate::actors::failure::Failure;
use crate::actors::{keys, stored};
use crate::domain::{Configuration, Configure, EnvironmentKey};
use crate::store::{Batch, durable_up_to};

impl Environments {
    /// Returns whether it was applied. Applying it again after a crash half-way does no harm.
    pub async fn declare(&self, key: &EnvironmentKey, configuration: Configuration) -> Result<bool, Failure> {
        let store = self.services().store();
        let declaration = stored::encode_configuration(&configuration);
        let declared = keys::declaration(key);
        if store.get(&declared)?.as_ref() == Some(&declaration) {
            return Ok(false);
        }
        self.configure(key, Configure { configuration, expected: None }).await?;
        let mut batch = Batch::default();
        batch.put(declared, declaration);
        durable_up_to(store, store.commit(batch)?).await;
        Ok(true)
    }
}
