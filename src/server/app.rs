//! Wires the parts together: from settings to a running server, and through its shutdown.

mod certificates;
mod clustered;
mod declarations;
mod error;
mod greeting;
mod isolation;
mod node;
mod node_chores;
mod one_machine;
mod realm;
mod realm_chores;
mod reconcile;
mod runner_host;
mod signals;
mod step_users;

pub use clustered::{
    ClusterError, audit as audit_cluster, export as export_cluster, give_up as give_up_import,
    import as import_cluster, rotate as rotate_cluster, status as cluster_status,
};
pub use declarations::differences;
pub use error::ServeError;
pub use isolation::examine as try_isolation;
pub use one_machine::{Start, open_store};
pub use signals::{Load, hold_hangups};

use crate::config::Settings;

/// Serves until asked to stop. `load` reads the settings again.
pub fn serve(settings: &Settings, load: Load, start: Start) -> Result<(), ServeError> {
    let system = actix_web::rt::System::new();
    match &settings.cluster {
        None => system.block_on(one_machine::serve(settings, load, start)),
        Some(_) if start.forget_master_key => {
            let words = "--forget-master-key is for the data directory of one machine";
            Err(ServeError::Cluster(words.to_owned()))
        }
        Some(cluster) => system.block_on(clustered::serve(settings, cluster, load, start.step_umask)),
    }
}
