//! Backups while many clients claim and release: each contains everything that was acknowledged before it began, and
//! nothing incomplete.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::json;

use super::{backup, download, restore_home, said, setup};
use crate::older_data::verify_audit;
use crate::support::at;
use crate::support::waiting::until;

const ENVIRONMENTS: usize = 6;
const BACKUPS: usize = 4;

/// The last token of each environment that a client received.
type Told = Arc<Vec<AtomicU64>>;

fn name(number: usize) -> String {
    format!("busy-{number}")
}

fn read(told: &Told) -> Vec<u64> {
    told.iter().map(|token| token.load(Ordering::SeqCst)).collect()
}

#[tokio::test]
async fn a_backup_under_load_has_everything_that_was_acknowledged_before_it_began() {
    let mut server = setup().start();
    let admin = server.admin();
    for number in 0..ENVIRONMENTS {
        admin.put(&at(&name(number)), json!({})).await.created();
    }
    let told: Told = Arc::new((0..ENVIRONMENTS).map(|_| AtomicU64::new(0)).collect());
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..ENVIRONMENTS)
        .map(|number| {
            let (admin, told, stop) = (server.admin(), told.clone(), stop.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let claimed = admin.claim(&name(number), json!({ "ttlSeconds": 600 })).await.created();
                    let token = claimed.data()["fencingToken"].as_u64().unwrap();
                    told[number].store(token, Ordering::SeqCst);
                    admin.release(&name(number), &claimed.session()).await.ok();
                }
            })
        })
        .collect();

    let mut taken = Vec::new();
    for number in 0..BACKUPS {
        // Something must have happened since the last backup.
        let last = read(&told);
        until("all go on", async || read(&told).iter().zip(&last).all(|(now, then)| now > then)).await;
        let before = read(&told);
        let file = server.home().join(format!("backup-{number}"));
        if number % 2 == 0 {
            std::fs::write(&file, download(&server).await).unwrap();
        } else {
            let (data, to) = (server.data_dir(), file.clone());
            said(&tokio::task::spawn_blocking(move || backup(&data, &to)).await.unwrap());
        }
        // A grant may be durable before its client receives it.
        let after: Vec<u64> = read(&told).iter().map(|token| token + 1).collect();
        taken.push((file, before, after));
    }
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    server.kill();

    for (file, before, after) in taken {
        let home = tempfile::tempdir().unwrap();
        restore_home(&file, home.path(), &server.data_dir());
        let mut restored = setup().start_at(home.path());
        let admin = restored.admin();
        for number in 0..ENVIRONMENTS {
            let history = admin.get(&format!("{}/history?limit=1", at(&name(number)))).await.ok();
            let (total, newest) =
                (history.json()["pagination"]["total"].clone(), history.data()[0]["fencingToken"].clone());
            assert_eq!(total, newest, "sessions are missing in {}", name(number));
            let newest = newest.as_u64().unwrap();
            assert!(
                (before[number]..=after[number]).contains(&newest),
                "{newest} {} {}",
                before[number],
                after[number]
            );
        }
        assert!(restored.terminate().success());
        verify_audit(home.path());
    }
}
