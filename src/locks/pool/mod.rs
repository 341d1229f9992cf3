//! The waiters for any environment of a pipeline. The domain's [`Pool`](domain::Pool) decides; here are its lock,
//! the clients to answer and the records to keep.
//!
//! `pipeline_pool` has the pool of one pipeline: joining, offers, and what environments take from it. `leaving` has how
//! its waiters are answered and leave without a lock.

mod leaving;
mod pipeline_pool;

use std::sync::Arc;

use dashmap::DashMap;
use foldhash::fast::RandomState;

pub use pipeline_pool::PipelinePool;

use domain::{Identifier, PipelineKey};

/// The pools of all pipelines.
#[derive(Default)]
pub struct Pools {
    of: DashMap<PipelineKey, Arc<PipelinePool>, RandomState>,
}

impl Pools {
    pub fn get(&self, pipeline: &PipelineKey) -> Arc<PipelinePool> {
        if let Some(pool) = self.of.get(pipeline) {
            return pool.clone();
        }
        let pool = || Arc::new(PipelinePool::new(pipeline.clone()));
        self.of.entry(pipeline.clone()).or_insert_with(pool).clone()
    }

    /// Those of an organization in which anybody has ever waited.
    pub fn active_in(&self, organization: &Identifier) -> Vec<Arc<PipelinePool>> {
        let own = self.of.iter().filter(|pool| pool.key().organization == *organization && pool.is_active());
        own.map(|pool| pool.clone()).collect()
    }

    /// Those in which anybody has ever waited.
    pub fn active(&self) -> Vec<Arc<PipelinePool>> {
        self.of.iter().map(|pool| pool.clone()).filter(|pool| pool.is_active()).collect()
    }
}
