//! Waiters for any environment of a pipeline.

use std::sync::Arc;

use super::Environments;
use super::reading::SessionFound;
use crate::failure::Failure;
use domain::{EnvironmentKey, Identifier, Labels, Person, PipelineKey, Session, SessionId};
use store::{StoreError, durable_up_to};

/// How many holders a refusal names: enough to know whom to ask.
pub const HOLDERS_MAX: usize = 10;
/// Some environments that were taken may be free by now, or be reset.
const TAKEN_LOOKED_AT: usize = 32;

impl Environments {
    /// Removes waiters for any environment that gave no sign of life for too long.
    pub fn expire_pools(&self) {
        for pool in self.directory.pools.active() {
            pool.expire(self.services());
        }
    }

    /// How many wait for any environment, in all pipelines.
    pub fn waiting_for_any(&self) -> usize {
        self.directory.pools.active().iter().map(|pool| pool.len()).sum()
    }

    /// Serves the waiters for any environment of the last run.
    pub async fn resume_pools(&self) -> Result<(), StoreError> {
        for pool in self.directory.pools.active() {
            pool.learn(self.services()).await?;
        }
        Ok(())
    }

    /// Up to [`HOLDERS_MAX`] holders of environments with these labels, the longest of these first.
    pub fn holders(
        &self,
        pipeline: &PipelineKey,
        labels: &Labels,
    ) -> Result<Vec<(Identifier, Arc<Session>)>, StoreError> {
        let mut holders = Vec::new();
        for name in self.directory.pools.get(pipeline).taken(labels, TAKEN_LOOKED_AT) {
            let key = EnvironmentKey { pipeline: pipeline.clone(), name };
            let lock = self.at_a_glance(&key)?.and_then(|environment| environment.lock.clone());
            holders.extend(lock.map(|lock| (key.name, lock)));
            if holders.len() == HOLDERS_MAX {
                break;
            }
        }
        holders.sort_by_key(|(_, holder)| holder.claimed.as_ref().map(|claimed| claimed.at));
        Ok(holders)
    }

    /// Ends the session of a waiter for any environment. A session that has an environment by now, or has ended, is
    /// returned as it is.
    pub async fn leave_pool(
        &self,
        pipeline: &PipelineKey,
        id: SessionId,
        by: &Person,
        any: bool,
    ) -> Result<Option<SessionFound>, Failure> {
        let (services, pool) = (self.services(), self.directory.pools.get(pipeline));
        let mut watch = self.watch_session(id);
        loop {
            let released = pool.release(services, id, by, any, self.by.as_ref())?;
            if let Some((session, sequence)) = released {
                durable_up_to(services.store(), sequence).await;
                // A read after this answer shows the session as ended.
                while pool.session(id).is_some() {
                    watch.changed().await;
                }
                return Ok(Some(SessionFound { environment: None, session, waiting: None }));
            }
            let Some(found) = self.session_of_any(pipeline, id, by.id)? else { return Ok(None) };
            // A session that has an environment is released there, by the same rule.
            if found.environment.is_none() {
                found.session.check_user(by, any)?;
            }
            if found.waiting.is_none() || found.environment.is_some() {
                return Ok(Some(found));
            }
            // An environment has taken it, or it is leaving, and that is not durable yet.
            match tokio::time::timeout(services.options.answer_timeout, watch.changed()).await {
                Ok(()) => {}
                Err(_) => return Err(Failure::TimedOut),
            }
        }
    }
}
