//! Owns the kinds of workload, one file each: their settings, what their clients do, and which figures come of it.

mod churn;
mod cycle;
mod cycling;
mod deploy_storm;
mod disk;
mod force_claim_race;
mod history;
mod hot;
mod long_queue;
mod many_environments;
mod readers;
mod restart;
mod soak;
mod stampede;

use serde::de::DeserializeOwned;
use toml::Table;

use crate::engine::bench::{Bench, Fault};
use crate::scenario::{Common, fault};

/// One kind: its settings, and what is done with them.
trait Kind: DeserializeOwned {
    /// It kills, restarts or measures the server itself.
    const NEEDS_OWN_SERVER: bool = false;

    /// What the settings' types cannot say.
    fn check(&self, common: &Common) -> Result<(), String>;

    /// How many are open at once.
    fn connections(&self, common: &Common) -> u32 {
        common.connections
    }

    async fn run(&self, bench: &mut Bench) -> Result<(), Fault>;
}

macro_rules! kinds {
    ($($name:literal => $variant:ident($settings:ty)),* $(,)?) => {
        #[derive(Debug)]
        pub enum Workload {
            $($variant($settings)),*
        }

        impl Workload {
            pub fn parse(kind: &str, settings: Table) -> Result<Self, String> {
                match kind {
                    $($name => settings.try_into().map(Self::$variant).map_err(|error| fault(&error)),)*
                    other => Err(format!("there is no kind {other:?}: it is one of {}", [$($name),*].join(", "))),
                }
            }

            pub fn check(&self, common: &Common) -> Result<(), String> {
                match self { $(Self::$variant(kind) => kind.check(common)),* }
            }

            pub fn connections(&self, common: &Common) -> u32 {
                match self { $(Self::$variant(kind) => kind.connections(common)),* }
            }

            pub fn needs_own_server(&self) -> bool {
                match self { $(Self::$variant(_) => <$settings as Kind>::NEEDS_OWN_SERVER),* }
            }

            pub async fn run(&self, bench: &mut Bench) -> Result<(), Fault> {
                match self { $(Self::$variant(kind) => kind.run(bench).await),* }
            }
        }
    };
}

kinds! {
    "cycle" => Cycle(cycle::Settings),
    "hot" => Hot(hot::Settings),
    "stampede" => Stampede(stampede::Settings),
    "deploy-storm" => DeployStorm(deploy_storm::Settings),
    "force-claim-race" => ForceClaimRace(force_claim_race::Settings),
    "readers" => Readers(readers::Settings),
    "many-environments" => ManyEnvironments(many_environments::Settings),
    "long-queue" => LongQueue(long_queue::Settings),
    "restart" => Restart(restart::Settings),
    "churn" => Churn(churn::Settings),
    "soak" => Soak(soak::Settings),
    "history" => History(history::Settings),
    "disk" => Disk(disk::Settings),
}

/// The server's bound, and that of our own memory.
const MAX_ENVIRONMENTS: u64 = 1_000_000;

/// No two clients share an environment.
fn one_environment_each(environments: u32, common: &Common) -> Result<(), String> {
    crate::scenario::within("environments", environments.into(), common.connections.into(), MAX_ENVIRONMENTS)
}

fn only_closed(common: &Common) -> Result<(), String> {
    let kind = &common.kind;
    if common.open_rate().is_some() {
        Err(format!("`loop` is closed for {kind}: its clients wait for each other"))
    } else {
        Ok(())
    }
}

/// A list of sizes to set side by side.
fn sizes(key: &str, sizes: &[u32], most: u64) -> Result<(), String> {
    if sizes.is_empty() {
        return Err(format!("`{key}` is empty"));
    }
    sizes.iter().try_for_each(|size| crate::scenario::within(key, (*size).into(), 1, most))
}
