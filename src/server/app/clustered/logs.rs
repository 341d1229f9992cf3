//! The logs of a node: its files, the store that all nodes share, and the other nodes.

use tokio::sync::{mpsc, watch};
use zeroize::Zeroizing;

use crate::app::error::ServeError;
use crate::config::{self, Cluster, Settings};
use cluster::View;
use cluster::peers::PeerClient;
use delivery::archive::{Archive, ArchiveOptions, Credentials, LogStore, S3, S3Settings, UPLOADS_WAITING_MAX, Uploads};
use delivery::logs::{self, Logs, Parts};
use domain::{DeploymentId, Identifier};
use locks::LogKeeper;

/// Opens them. What is uploaded is so by a task of its own, until the node ends.
pub fn open(
    settings: &Settings,
    cluster: &Cluster,
    client: PeerClient,
    view: watch::Receiver<View>,
) -> Result<(Logs, Archive), ServeError> {
    let store =
        cluster.logs.as_ref().map(|logs| store(logs, &cluster.node)).transpose().map_err(ServeError::Cluster)?;
    let (sender, ended) = mpsc::channel(UPLOADS_WAITING_MAX);
    let parts = Parts { foreign_bytes_max: cluster.foreign_log_bytes, ended: store.as_ref().map(|_| sender) };
    let dir = settings.data_dir.join(logs::FOLDER);
    let logs = Logs::open_in_parts(&dir, settings.storage.deployment_log_bytes, parts)?;
    let uploads = store.clone().map(|store| {
        let (uploads, control) = Uploads::new(logs.clone(), store, ended);
        actix_web::rt::spawn(uploads.run());
        control
    });
    let url_of = move |node: &str| {
        let view = view.borrow();
        let living = view.nodes.iter().find(|seen| seen.lives && seen.record.node == node);
        living.map(|seen| seen.record.url.clone())
    };
    let archive = Archive::new(ArchiveOptions {
        node: cluster.node.clone(),
        logs: logs.clone(),
        store,
        client,
        urls: Box::new(url_of),
        uploads,
        organizations: settings.organizations.len(),
    });
    Ok((logs, archive))
}

fn store(logs: &config::LogStore, node: &str) -> Result<LogStore, String> {
    Ok(match logs {
        config::LogStore::Directory(root) => LogStore::directory(root, node),
        config::LogStore::S3(s3) => LogStore::s3(S3::new(S3Settings {
            bucket: s3.bucket.clone(),
            prefix: s3.prefix.clone(),
            endpoint: s3.endpoint.clone(),
            region: s3.region.clone(),
            credentials: Credentials {
                key_id: s3.key_id.clone(),
                secret: Zeroizing::new(s3.secret.reveal().to_owned()),
                session_token: s3.session_token.as_ref().map(|token| Zeroizing::new(token.reveal().to_owned())),
            },
        })?),
    })
}

/// This node.
pub struct OwnLogs {
    pub node: String,
    pub uploads: bool,
    pub logs: Logs,
}

impl LogKeeper for OwnLogs {
    fn node(&self) -> &str {
        &self.node
    }

    fn uploads(&self) -> bool {
        self.uploads
    }

    fn has(&self, organization: &Identifier, deployment: DeploymentId, number: u32) -> bool {
        self.logs.has(&self.logs.file(organization, deployment, number))
    }
}
