//! Killed during the backup or the restore, on either side.

use std::io::Write;

use serde_json::json;

use super::{backup, download, half_way, rest, restore, restoring, said, setup, why, with_large_log};
use crate::support::refusal;

#[tokio::test]
async fn a_server_that_is_killed_while_it_is_backed_up_starts_again_and_what_came_is_refused() {
    let mut server = with_large_log();
    let claimed = server.admin().claim("review-1", json!({ "ttlSeconds": 600 })).await.created().session();
    let (first, answer) = half_way(&server).await;
    server.kill();
    let (bytes, whole) = rest(answer).await;
    assert!(!whole);
    let (file, data) = (server.home().join("part"), server.home().join("restored"));
    std::fs::write(&file, [first, bytes].concat()).unwrap();
    let (_, told) = why(&restore(&file, &data));
    assert!(told.contains("the backup is incomplete"), "{told}");
    assert!(!data.exists());
    server.start_again();
    let session = server.admin().session("review-1", &claimed).await.ok().data();
    assert_eq!(session["lockStatus"], "active");
    said(&backup(&server.data_dir(), &server.home().join("whole")));
}

#[tokio::test]
async fn a_restore_that_is_killed_leaves_no_data_directory_and_can_be_repeated() {
    let server = with_large_log();
    let whole = download(&server).await;
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    for fraction in [3, 2] {
        let mut child = restoring(&data);
        let mut input = child.stdin.take().unwrap();
        // When all of it has been read, much of it has been written.
        input.write_all(&whole[..whole.len() / 4 * fraction]).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(data.join("restoring").exists());
        let (code, told) = refusal(&setup(), home.path());
        assert!(code == 1 && told.contains("was not finished; run `lockkeeper restore`"), "{code} {told}");
    }
    let file = home.path().join("backup");
    std::fs::write(&file, &whole).unwrap();
    said(&restore(&file, &data));
    std::fs::copy(server.data_dir().join("master.key"), data.join("master.key")).unwrap();
    let restored = setup().start_at(home.path());
    restored.admin().get("/pipelines").await.ok();
}
