//! Owns the kinds of workload: their settings, the work of their clients, and the resulting figures.

use toml::Table;

use crate::engine::{Fault, LoadTest};
use crate::server::ClusterShape;
use crate::settings::{Common, fault};
use crate::workloads::kind::Kind;

mod contention;
mod cycles;
mod failover;
mod failures;
mod kind;
mod long_queue;
mod neighbour;
mod reads;

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

            pub fn cluster(&self) -> Option<ClusterShape> {
                match self { $(Self::$variant(kind) => kind.cluster()),* }
            }

            pub async fn run(&self, test: &mut LoadTest) -> Result<(), Fault> {
                match self { $(Self::$variant(kind) => kind.run(test).await),* }
            }
        }
    };
}

kinds! {
    "cycle" => Cycle(cycles::Cycle),
    "hot" => Hot(contention::Hot),
    "stampede" => Stampede(contention::Stampede),
    "deploy-storm" => DeployStorm(cycles::DeployStorm),
    "force-claim-race" => ForceClaimRace(contention::ForceClaimRace),
    "readers" => Readers(reads::Readers),
    "many-environments" => ManyEnvironments(cycles::ManyEnvironments),
    "long-queue" => LongQueue(long_queue::Settings),
    "neighbour" => Neighbour(neighbour::Settings),
    "restart" => Restart(failures::Restart),
    "churn" => Churn(failures::Churn),
    "soak" => Soak(cycles::Soak),
    "history" => History(reads::History),
    "disk" => Disk(cycles::Disk),
    "failover" => Failover(failover::Settings),
}
