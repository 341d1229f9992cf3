//! Repositories that are too large for the disk of the data directory.

use serde_json::{Value, json};

use super::filled_disk::{DISK_MIB, until_claims_are_taken};
use super::full_disk::wait_for_reserve;
use super::small_disk::SmallDisk;
use crate::support::registries::{Remote, git_is_usable, make, scratch_is_empty, sync};
use crate::support::{Answer, Server, Setup};

const MIB: u64 = 1024 * 1024;

/// A server with a registry whose repository has grown by 32 MiB of incompressible data.
struct Site {
    disk: SmallDisk,
    server: Server,
    registry: Value,
    _remote: Remote,
}

impl Site {
    async fn start(settings: &str) -> Option<Self> {
        let disk = SmallDisk::mount(DISK_MIB).filter(|_| git_is_usable())?;
        let settings = format!("[storage]\nlog_segment_mb = 4\nmin_free_mb = 8\n{settings}\nallow_file_urls = true\n");
        let server = Setup::default().settings(&settings).start_at(disk.home());
        let remote = Remote::new();
        let registry = make(&server.admin(), remote.registry("tools", "main")).await.data();
        assert_eq!(registry["status"], "ready", "{registry:#}");
        remote.sh("git -C clone config core.compression 0 && head -c 33554432 /dev/urandom > clone/large");
        remote.push();
        wait_for_reserve(&disk, &server).await;
        Some(Self { disk, server, registry, _remote: remote })
    }

    /// Others claim while the repository is fetched.
    async fn sync_beside_claims(&self) -> Answer {
        let (client, registry) = (self.server.admin(), self.registry.clone());
        let syncing = tokio::spawn(async move { sync(&client, &registry).await });
        let others = self.server.admin();
        while !syncing.is_finished() {
            let session = others.claim("review-1", json!({ "ttlSeconds": 600 })).await.created().session();
            others.release("review-1", &session).await.ok();
        }
        syncing.await.unwrap()
    }

    async fn is_refused(&self, reason: &str) {
        let refused = self.sync_beside_claims().await.refused(409, "sync_failed");
        assert!(refused.json()["detail"].as_str().unwrap().contains(reason), "{refused:?}");
        assert!(scratch_is_empty(&self.server));
        until_claims_are_taken(&self.server).await;
    }
}

#[tokio::test]
async fn a_repository_over_its_limit_is_refused_and_leaves_nothing() {
    let settings = "[runner]\nmin_free_mb = \"off\"\n[git]\nmax_repository_mb = 8";
    let Some(site) = Site::start(settings).await else { return };
    site.is_refused("git.max_repository_mb").await;
}

#[tokio::test]
async fn a_repository_for_which_the_disk_has_too_little_room_is_refused_and_leaves_nothing() {
    let Some(site) = Site::start("[runner]\nmin_free_mb = 64\n[git]").await else { return };
    site.disk.fill(80 * MIB);
    site.is_refused("(runner.min_free_mb)").await;
}

#[tokio::test]
async fn a_repository_that_fills_the_disk_is_refused_and_fetched_when_there_is_room() {
    let Some(site) = Site::start("[runner]\nmin_free_mb = \"off\"\n[git]").await else { return };
    site.disk.fill(24 * MIB);
    let refused = sync(&site.server.admin(), &site.registry).await.refused(409, "sync_failed");
    assert!(refused.json()["detail"].as_str().unwrap().contains("the server's disk is full"), "{refused:?}");
    assert!(scratch_is_empty(&site.server));
    until_claims_are_taken(&site.server).await;
    site.disk.make_room();
    let synced = sync(&site.server.admin(), &site.registry).await.ok().data();
    assert_eq!(synced["stepCount"], 1, "{synced:#}");
}
