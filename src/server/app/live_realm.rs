//! A realm at work: its chores and its webhooks, until it is stopped.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::keeping::Declarations;
use super::{chores, keeping};
use crate::config::Settings;
use crate::http::Realm;
use delivery::archive::Archive;
use events::Sealer;

/// How long a stop waits for webhook receivers: long enough for one that works.
const LAST_DELIVERIES_MAX: Duration = Duration::from_secs(5);

const LOOKED_AT_EVERY: Duration = Duration::from_millis(5);

pub struct LiveRealm {
    pub realm: Arc<Realm>,
    chores: Vec<JoinHandle<()>>,
    delivering: JoinHandle<()>,
}

impl LiveRealm {
    /// `declarations`: what the files of all organizations declare, as it changes.
    pub fn begin(realm: Realm, settings: &Settings, archive: &Archive, declarations: Declarations) -> Self {
        let realm = Arc::new(realm);
        let mut chores = chores::begin_of_realm(&realm, settings, archive);
        let keeping = keeping::run(realm.clone(), settings.organizations.clone(), declarations);
        chores.push(actix_web::rt::spawn(keeping));
        let webhooks = realm.webhooks.clone();
        let delivering = actix_web::rt::spawn(async move { webhooks.run().await });
        Self { realm, chores, delivering }
    }

    /// Begins nothing more by itself; requests are still answered.
    pub fn wind_down(&self) {
        self.realm.analyses.close();
        self.chores.iter().for_each(JoinHandle::abort);
        self.realm.webhooks.stop();
    }

    /// Deliveries that are still pending are made after the next start.
    pub async fn finish_deliveries(&mut self, patience: Duration) {
        tokio::time::timeout(patience.min(LAST_DELIVERIES_MAX), &mut self.delivering).await.ok();
    }

    /// Writes what was not worth a write of its own, after the last request.
    pub async fn write_last(&self) {
        if let Err(error) = self.realm.accounts.write_usage().await {
            tracing::warn!(%error, "cannot write when tokens were last used");
        }
        if let Some(mut sealer) = Sealer::new(self.realm.events.clone())
            && let Err(error) = sealer.seal().await
        {
            tracing::warn!(%error, "cannot seal the last events; the next start does");
        }
    }

    /// Until its deliveries and the requests under way are done, or some time has passed.
    pub async fn settle(&mut self, patience: Duration) {
        self.finish_deliveries(patience).await;
        let idle = async {
            // Every request holds one.
            while Arc::strong_count(&self.realm) > 1 {
                tokio::time::sleep(LOOKED_AT_EVERY).await;
            }
        };
        tokio::time::timeout(patience, idle).await.ok();
    }
}
