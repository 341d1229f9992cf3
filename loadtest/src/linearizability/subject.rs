//! Owns the choice of what histories are made on: a server alone, or a cluster.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use crate::linearizability::clients::{Losses, Shared};
use crate::linearizability::cluster::{self, Cluster};
use crate::linearizability::disturbances::Disturbances;
use crate::linearizability::plan::{Plan, RunError};
use crate::linearizability::random::Random;
use crate::linearizability::single::{self, Single};

pub enum Subject {
    Single(Single),
    Cluster(Cluster),
}

impl Subject {
    pub async fn start(plan: &Plan, origin: Instant) -> Result<(Self, Shared), RunError> {
        Ok(match plan.nodes {
            Some(nodes) => {
                let (cluster, shared) = Cluster::start(plan, nodes, origin).await?;
                (Self::Cluster(cluster), shared)
            }
            None => {
                let (single, shared) = Single::start(plan, origin).await?;
                (Self::Single(single), shared)
            }
        })
    }

    /// Between two disturbances, in milliseconds.
    pub fn quiet(&self) -> Range<u64> {
        match self {
            Self::Single(_) => single::QUIET,
            Self::Cluster(_) => cluster::QUIET,
        }
    }

    pub async fn disturb(
        &mut self,
        shared: &Shared,
        random: &mut Random,
        losses: &mut Losses,
    ) -> Result<Disturbances, RunError> {
        match self {
            Self::Single(single) => single.disturb(shared, random, losses).await,
            Self::Cluster(cluster) => cluster.disturb(shared, random, losses).await,
        }
    }

    /// Until it answers again.
    pub async fn settle(&mut self, shared: &Shared) -> Result<Disturbances, RunError> {
        match self {
            Self::Single(_) => Ok(Disturbances::default()),
            Self::Cluster(cluster) => {
                let deposed = cluster.until_ready(shared).await?;
                Ok(Disturbances { deposed, ..Disturbances::default() })
            }
        }
    }

    /// When the clients are done: what was seen only from outside.
    pub async fn complete(&self, losses: &mut Losses) -> Result<(), RunError> {
        match self {
            Self::Single(_) => Ok(()),
            Self::Cluster(cluster) => cluster.complete(losses).await,
        }
    }

    /// Writes what helps to understand a violation.
    pub fn keep_logs(&self, directory: &Path, prefix: &str) -> Result<(), RunError> {
        match self {
            Self::Single(_) => Ok(()),
            Self::Cluster(cluster) => cluster.keep_logs(directory, prefix),
        }
    }

    pub async fn stop(self) -> Result<(), RunError> {
        match self {
            Self::Single(single) => single.stop().await,
            // Every node has been stopped before now and then; here the last ones would have nobody to hand over to.
            Self::Cluster(_) => Ok(()),
        }
    }
}
