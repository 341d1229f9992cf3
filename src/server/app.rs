//! Wires the parts together: from settings to a running server, and through its shutdown.

mod certificates;
mod clustered;
mod declarations;
mod error;
mod greeting;
mod host;
mod isolation;
mod node_chores;
mod one_machine;
mod realm;
mod realm_chores;
mod reconcile;
mod runner_host;
mod signals;
mod step_users;

pub use clustered::{
    audit as audit_cluster, audit_store, export as export_cluster, give_up as give_up_import, import as import_cluster,
    rotate as rotate_cluster, status as cluster_status,
};
pub use declarations::differences;
pub use error::ServeError;
pub use greeting::reachable;
pub use isolation::examine as try_isolation;
pub use one_machine::{Start, open_store};
pub use signals::{Load, hold_hangups};

use crate::config::Settings;
use crate::telemetry;
use signals::{Reloading, Signals};

/// Serves until asked to stop. `load` reads the settings again.
pub fn serve(settings: &Settings, load: Load, start: Start) -> Result<(), ServeError> {
    actix_web::rt::System::new().block_on(async {
        // A signal during the start stops the server as soon as it has started.
        let signals = Signals::new()?;
        let reloading = Reloading::new(load, settings)?;
        // Counters that are created before this do not count.
        telemetry::metrics();
        match &settings.cluster {
            None => one_machine::serve(settings, start, signals, reloading).await,
            Some(_) if start.forget_master_key => {
                let words = "--forget-master-key is for the data directory of one machine";
                Err(ServeError::Cluster(words.to_owned()))
            }
            Some(cluster) => clustered::serve(settings, cluster, start.step_umask, signals, reloading).await,
        }
    })
}
