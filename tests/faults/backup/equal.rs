//! A restored server has the same state as the original.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{backup, download, restore, restore_home, said, setup};
use crate::older_data::{comparable, format_4, known_to, unpack, verify_audit, written_in};
use crate::support::{Client, refusal};

#[tokio::test]
async fn a_restored_server_shows_everything_that_the_other_one_showed() {
    let home = tempfile::tempdir().unwrap();
    unpack(&format_4(), home.path());
    let written = written_in(home.path());
    let paths: Vec<&String> = written["answers"].as_object().unwrap().keys().collect();
    let organization = std::fs::read_to_string(format_4().join("organization.toml")).unwrap();
    let mut server = setup().organization(&organization).start_at(home.path());
    let shown = shown(&server.admin(), &paths, &written).await;

    let by_socket = home.path().join("socket");
    let words = said(&backup(&server.data_dir(), &by_socket));
    assert!(words.contains("records") && words.contains("of acme, as of 20"), "{words}");
    let by_api = home.path().join("api");
    std::fs::write(&by_api, download(&server).await).unwrap();
    assert!(server.terminate().success());
    let offline = home.path().join("offline");
    said(&backup(&server.data_dir(), &offline));

    for file in [by_socket, by_api, offline] {
        let other = tempfile::tempdir().unwrap();
        restore_home(&file, other.path(), &server.data_dir());
        let mut restored = setup().organization(&organization).start_at(other.path());
        let found = self::shown(&restored.admin(), &paths, &written).await;
        for (path, expected) in &shown {
            let found = &found.iter().find(|(other, _)| other == path).unwrap().1;
            assert_eq!(found, expected, "GET {path} of {}", file.display());
        }
        assert!(restored.terminate().success());
        verify_audit(other.path());
    }
}

pub async fn shown(admin: &Client, paths: &[&String], written: &Value) -> Vec<(String, Value)> {
    let mut shown = Vec::new();
    for path in paths {
        let answer = admin.get(path).await.ok();
        let expected = &written["answers"][path.as_str()];
        let found = if expected.is_string() { Value::from(answer.text) } else { answer.data() };
        shown.push(((*path).clone(), comparable(known_to(expected, found))));
    }
    shown
}

#[tokio::test]
async fn a_backup_does_not_contain_the_master_key_and_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let server = setup().start();
    let file = server.home().join("backup");
    let words = said(&backup(&server.data_dir(), &file));
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(&server.data_dir().join("operator.sock")), 0o600);
    let key = std::fs::read_to_string(server.data_dir().join("master.key")).unwrap();
    let bytes = std::fs::read(&file).unwrap();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    let binary: Vec<u8> = (0..64).step_by(2).map(|at| u8::from_str_radix(&key[at..at + 2], 16).unwrap()).collect();
    assert!(!has(key.trim().as_bytes()) && !has(&binary) && has(b"\"organizations\":[\"acme\"]"));
    assert!(words.contains("fingerprint "), "{words}");

    fn mode(path: &Path) -> u32 {
        PathBuf::from(path).metadata().unwrap().permissions().mode() & 0o777
    }
}

#[test]
fn what_was_restored_is_not_served_without_the_master_key_which_is_named() {
    let server = setup().start();
    let file = server.home().join("backup");
    said(&backup(&server.data_dir(), &file));
    let fingerprint = std::fs::read_to_string(server.data_dir().join("master.key.id")).unwrap();
    let (home, fingerprint) = (tempfile::tempdir().unwrap(), fingerprint.trim_end());
    let data_dir = home.path().join("data");
    let words = said(&restore(&file, &data_dir));
    let needed = format!("does not start without the master key of the backup (fingerprint {fingerprint})");
    assert!(words.contains(&needed), "{words}");
    let (code, told) = refusal(&setup(), home.path());
    assert!(code == 1 && told.contains("master.key is missing") && told.contains(fingerprint), "{told}");
    assert!(!data_dir.join("master.key").exists());
    std::fs::copy(server.data_dir().join("master.key"), data_dir.join("master.key")).unwrap();
    setup().start_at(home.path());
}

#[tokio::test]
async fn a_path_longer_than_the_name_of_a_socket_is_no_hindrance() {
    let home = tempfile::tempdir().unwrap();
    let deep = home.path().join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let server = setup().start_at(&deep);
    let words = said(&backup(&server.data_dir(), &deep.join("backup")));
    assert!(words.contains("records"), "{words}");
}
