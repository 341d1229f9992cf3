//! `lockkeeper backup` over the API, like any client.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::{restore_home, said, setup, text, why};
use crate::support::namespace::closed_port;
use crate::support::{ADMIN_TOKEN, lockkeeper};

fn take(url: &str, token: &str, file: &Path, json: bool) -> Output {
    let mut words = vec!["backup", text(file), "--url", url, "--retry", "0"];
    words.extend(json.then_some("--json"));
    let home = file.parent().unwrap();
    lockkeeper(&words).env("LOCKKEEPER_TOKEN", token).env("XDG_CONFIG_HOME", home).output().unwrap()
}

#[tokio::test]
async fn an_admin_takes_a_backup_from_elsewhere() {
    let server = setup().start();
    let home = tempfile::tempdir().unwrap();
    let (first, second) = (home.path().join("first"), home.path().join("second"));
    let words = said(&take(&server.address, ADMIN_TOKEN, &first, false));
    assert!(words.contains("records") && words.contains("of acme, as of 20"), "{words}");
    let told: Value = serde_json::from_str(&said(&take(&server.address, ADMIN_TOKEN, &second, true))).unwrap();
    assert_eq!(
        (&told["organizations"][0], told["bytes"].as_u64()),
        (&"acme".into(), Some(second.metadata().unwrap().len()))
    );
    restore_home(&second, home.path(), &server.data_dir());

    let (code, words) = why(&take(&server.address, ADMIN_TOKEN, &first, false));
    assert!(code == 1 && words.contains("exists"), "{code} {words}");
    let other = home.path().join("other");
    let developer =
        server.admin().post("/tokens", serde_json::json!({ "name": "x", "user": "ana" })).await.created().data();
    let (code, words) = why(&take(&server.address, developer["token"].as_str().unwrap(), &other, false));
    assert!(code == 77 && words.contains("requires the role admin"), "{code} {words}");
    let nobody = format!("http://127.0.0.1:{}", closed_port());
    assert_eq!(why(&take(&nobody, ADMIN_TOKEN, &other, false)).0, 69);
    assert!(!other.exists() && !home.path().join("other.part").exists());
}
