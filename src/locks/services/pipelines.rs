//! Pipelines as deployments see them, and the environments whose deployment waits for its pipeline to be resumed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dashmap::DashMap;

use crate::ports::Definitions;
use domain::{DeploymentId, EnvironmentKey, PipelineKey, PipelineNow};

pub struct PipelineStatus {
    definitions: Arc<dyn Definitions>,
    /// Each with the first deployment that waits.
    held_back: DashMap<EnvironmentKey, DeploymentId>,
    /// Whether the unfinished deployments of the last run have been recovered.
    recovered: AtomicBool,
}

impl PipelineStatus {
    pub fn new(definitions: Arc<dyn Definitions>) -> Self {
        Self { definitions, held_back: DashMap::new(), recovered: AtomicBool::new(false) }
    }

    pub fn now(&self, pipeline: &PipelineKey) -> PipelineNow {
        self.definitions.now(pipeline)
    }

    pub fn hold_back(&self, key: &EnvironmentKey, deployment: DeploymentId) {
        self.held_back.insert(key.clone(), deployment);
    }

    pub fn let_go(&self, key: &EnvironmentKey) {
        self.held_back.remove(key);
    }

    /// The environments of the pipeline that are held back, in the order in which their deployments were made.
    pub fn held_back(&self, pipeline: &PipelineKey) -> Vec<EnvironmentKey> {
        let held_back = self.held_back.iter().filter(|entry| entry.key().pipeline == *pipeline);
        let mut waiting: Vec<_> = held_back.map(|entry| (*entry.value(), entry.key().clone())).collect();
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, key)| key).collect()
    }

    pub fn set_recovered(&self) {
        self.recovered.store(true, Ordering::Relaxed);
    }

    pub fn is_recovered(&self) -> bool {
        self.recovered.load(Ordering::Relaxed)
    }
}
