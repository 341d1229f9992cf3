//! Refused backups and restores, which leave nothing behind.

use serde_json::json;

use super::{LARGE_LOG, backup, download, half_way, rest, restore, said, setup, why, with_large_log};
use crate::durability::small_disk::SmallDisk;
use crate::support::Server;
use crate::support::tenants::acme_and_beta;

#[tokio::test]
async fn whatever_is_not_a_whole_backup_is_refused_with_words() {
    let server = setup().start();
    let whole = download(&server).await;
    let home = tempfile::tempdir().unwrap();
    let (file, data) = (home.path().join("file"), home.path().join("data"));
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let newer = [b"lockkeeper backup 9\n", &whole[20..]].concat();
    for (bytes, words) in [
        (whole[..whole.len() - 1].to_vec(), "is incomplete: it ends after"),
        (whole[..whole.len() / 2].to_vec(), "is incomplete: it ends after"),
        (flipped(whole.len() / 2), "is damaged at byte"),
        (flipped(whole.len() - 20), "is damaged at byte"),
        ([whole.as_slice(), b"more"].concat(), "there is more after its end"),
        (b"PK\x03\x04 something else".to_vec(), "is not a backup"),
        (Vec::new(), "is not a backup"),
        (newer, "has form 9, and this program reads form 1"),
    ] {
        std::fs::write(&file, &bytes).unwrap();
        let (code, told) = why(&restore(&file, &data));
        assert!(code == 1 && told.contains(words), "{code} {told}");
        assert!(!data.exists());
    }
    std::fs::write(&file, &whole).unwrap();
    let (code, told) = why(&restore(&file, &server.data_dir()));
    assert!(code == 1 && told.contains("is not empty"), "{told}");
    let (_, told) = why(&backup(&server.data_dir(), &file));
    assert!(told.contains("exists"), "{told}");
    let (_, told) = why(&backup(&home.path().join("nowhere"), &home.path().join("other")));
    assert!(told.contains("does not exist"), "{told}");
    said(&restore(&file, &data));
}

#[tokio::test]
async fn an_admin_does_not_get_the_data_of_other_organizations_and_the_operator_does() {
    let (server, bea) = acme_and_beta(setup).await;
    for admin in [server.admin(), bea] {
        let answer = admin.send(admin.request(reqwest::Method::GET, "/api/v1/backup")).await;
        let answer = answer.refused(403, "several_organizations");
        assert!(answer.json()["detail"].as_str().unwrap().contains("lockkeeper backup FILE --data-dir DIR"));
    }
    let words = said(&backup(&server.data_dir(), &server.home().join("backup")));
    assert!(words.contains("of acme, beta, as of"), "{words}");
}

#[tokio::test]
async fn there_is_one_backup_at_a_time_and_a_slow_reader_stops_nobody() {
    let server = with_large_log();
    let slow = half_way(&server).await;
    let admin = server.admin();
    admin.send(admin.request(reqwest::Method::GET, "/api/v1/backup")).await.refused(409, "backup_in_progress");
    let (_, told) = why(&backup(&server.data_dir(), &server.home().join("second")));
    assert!(told.contains("another backup is being taken"), "{told}");
    let claimed = admin.claim("review-1", json!({})).await.created();
    admin.release("review-1", &claimed.session()).await.ok();
    // An abandoned one makes room for the next.
    drop(slow);
    until_saved(&server, "third");
}

/// The server notices with a delay that the client of another one has gone.
fn until_saved(server: &Server, name: &str) {
    for _ in 0..1_000 {
        let output = backup(&server.data_dir(), &server.home().join(name));
        if output.status.success() {
            return;
        }
        assert!(why(&output).1.contains("another backup is being taken"));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the first backup never ended");
}

#[tokio::test]
async fn who_loses_the_right_while_taking_it_does_not_get_the_rest() {
    let server = with_large_log();
    let admin = server.admin();
    let made = admin.post("/tokens", json!({ "name": "backups" })).await.created().data();
    let other = server.with_token(made["token"].as_str().unwrap());
    let mut answer = other.request(reqwest::Method::GET, "/api/v1/backup").send().await.unwrap();
    answer.chunk().await.unwrap().unwrap();
    admin.delete(&format!("/tokens/{}", made["tokenId"].as_str().unwrap())).await;
    assert!(!rest(answer).await.1, "it ends as one that is incomplete");
}

#[tokio::test]
async fn a_disk_that_is_too_small_leaves_an_empty_directory() {
    let Some(disk) = SmallDisk::mount(48) else { return };
    let server = with_large_log();
    let file = server.home().join("backup");
    said(&backup(&server.data_dir(), &file));
    let data = disk.home().join("data");
    let (code, told) = why(&restore(&file, &data));
    assert!(matches!(code, 1 | 74), "{code} {told}");
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "{told}");
    // A separate mount does not matter if there is room.
    std::fs::remove_file(server.data_dir().join("logs").join(LARGE_LOG)).unwrap();
    let small = server.home().join("small");
    said(&backup(&server.data_dir(), &small));
    said(&restore(&small, &data));
}
