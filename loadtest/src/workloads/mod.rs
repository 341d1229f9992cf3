//! Owns the kinds of workload, one file each: their settings, what their clients do, and which figures come of it.

use toml::Table;

use crate::engine::{Fault, LoadTest};
use crate::server::ClusterLaunch;
use crate::settings::{Common, fault};
use crate::workloads::kind::Kind;

mod churn;
mod cycle;
mod deploy_storm;
mod disk;
mod failover;
mod force_claim_race;
mod history;
mod hot;
mod kind;
mod long_queue;
mod many_environments;
mod neighbour;
mod readers;
mod restart;
mod soak;
mod stampede;

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
                    other => Err(format!("unknown kind {other:?}: must be one of {}", [$($name),*].join(", "))),
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

            pub fn cluster(&self) -> Option<ClusterLaunch> {
                match self { $(Self::$variant(kind) => kind.cluster()),* }
            }

            pub async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
                match self { $(Self::$variant(kind) => kind.run(test).await),* }
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
    "neighbour" => Neighbour(neighbour::Settings),
    "restart" => Restart(restart::Settings),
    "churn" => Churn(churn::Settings),
    "soak" => Soak(soak::Settings),
    "history" => History(history::Settings),
    "disk" => Disk(disk::Settings),
    "failover" => Failover(failover::Settings),
}
