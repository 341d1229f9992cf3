//! Steps whose output fills the disk of the data directory.

use serde_json::json;

use super::filled_disk::{DISK_MIB, deploy, finished, start_running, until_claims_are_taken};
use super::full_disk::{readiness, wait_for_reserve};
use super::small_disk::SmallDisk;
use super::until;
use crate::support::waiting;

/// More than the minimum free space of the storage, and less than the step prints.
const ROOM: u64 = 16 * 1024 * 1024;
/// Without a free block, a remark needs room in the last block of the log.
const BLOCK: u64 = 4096;
const REMARK_MAX: u64 = 200;
const PRINTS: &str = "yes $(printf %99s | tr ' ' x) | head -n 200000; touch \"$TRACE\"; \
                      until [ -e \"$TRACE.go\" ]; do sleep 0.05; done; echo the end";

#[tokio::test]
async fn output_that_finds_the_disk_full_is_left_out_with_a_remark_and_everything_goes_on() {
    let Some(disk) = SmallDisk::mount(DISK_MIB) else { return };
    let server = start_running(&disk, "min_free_mb = \"off\"\nlog_kb_per_step = 1048576", PRINTS).await;
    let (client, trace) = (server.admin(), disk.home().join("trace"));
    let go = trace.with_extension("go");
    for ends_on_full_disk in [false, true] {
        disk.fill(ROOM);
        let held = client.claim("review-3", json!({ "ttlSeconds": 600 })).await.created().session();
        let (session, deployment) = deploy(&client).await;
        waiting::until("a loud step", async || trace.exists()).await;
        until("a store that refuses", || readiness(&server), |answer| answer.status == 503).await;
        client.claim("review-2", json!({})).await.refused(503, "storage_full");
        client.release("review-3", &held).await.ok();
        if !ends_on_full_disk {
            disk.make_room();
        }
        std::fs::write(&go, "").unwrap();
        let ended = finished(&client, &deployment).await;
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
        let log = client.get(&format!("/deployments/{deployment}/logs")).await.ok().text;
        let read: Vec<_> = log.lines().filter(|line| !line.starts_with('x')).collect();
        if ends_on_full_disk {
            let is_told = read.iter().any(|line| line.starts_with("lockkeeper: output is left out from here: "));
            let length = std::fs::metadata(server.data_dir().join(format!("logs/{deployment}.log"))).unwrap().len();
            assert!(is_told || BLOCK - length % BLOCK < REMARK_MAX, "{read:?}");
            disk.make_room();
        } else {
            let is_told =
                matches!(read[..], [.., lost, "the end"] if lost.ends_with(" bytes could not be written here"));
            assert!(is_told, "{read:?}");
        }
        until_claims_are_taken(&server).await;
        client.release("review-1", &session).await.ok();
        wait_for_reserve(&disk, &server).await;
        for file in [&trace, &go] {
            std::fs::remove_file(file).unwrap();
        }
    }
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
