//! The trait of every workload, and the limits that several of them share.

use serde::de::DeserializeOwned;

use crate::engine::{Fault, LoadTest};
use crate::server::ClusterShape;
use crate::settings::{Common, within};

pub trait Kind: DeserializeOwned {
    /// Whether the workload kills, restarts or measures the server itself.
    const NEEDS_OWN_SERVER: bool = false;

    /// Checks the settings beyond their types.
    fn check(&self, common: &Common) -> Result<(), String>;

    fn connections(&self, common: &Common) -> u32 {
        common.connections
    }

    /// The cluster that the workload needs instead of a single server; the caller adds the program.
    fn cluster(&self) -> Option<ClusterShape> {
        None
    }

    async fn run(&self, test: &mut LoadTest) -> Result<(), Fault>;
}

/// The limit of the server, and of our memory.
pub const MAX_ENVIRONMENTS: u64 = 1_000_000;

/// Ensures that no two clients share an environment.
pub fn one_environment_each(environments: u32, common: &Common) -> Result<(), String> {
    within("environments", environments.into(), common.connections.into(), MAX_ENVIRONMENTS)
}

pub fn only_closed(common: &Common) -> Result<(), String> {
    let kind = &common.kind;
    if common.open_rate().is_some() {
        Err(format!("`loop` must be closed for {kind}: its clients wait for each other"))
    } else {
        Ok(())
    }
}

/// Checks a list of sizes to compare.
pub fn sizes(key: &str, sizes: &[u32], most: u64) -> Result<(), String> {
    if sizes.is_empty() {
        return Err(format!("`{key}` must not be empty"));
    }
    sizes.iter().try_for_each(|size| within(key, (*size).into(), 1, most))
}

pub fn largest(sizes: &[u32]) -> u32 {
    sizes.iter().copied().max().unwrap_or(0)
}
