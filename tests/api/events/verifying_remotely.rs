//! `lockkeeper audit verify` through a running server.

use std::process::Output;

use serde_json::Value;

use super::cycle;
use crate::support::{ADMIN_TOKEN, Server, lockkeeper};

async fn verify(server: &Server, token: &str, more: &[&str]) -> Output {
    let mut command = lockkeeper(&["audit", "verify", "--url", &server.address, "--retry", "0"]);
    command.args(more).env("LOCKKEEPER_TOKEN", token).env("HOME", server.home()).env_remove("XDG_CONFIG_HOME");
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn the_command_says_the_same_of_a_server_as_of_its_data_directory() {
    let mut server = Server::start();
    cycle(&server.admin(), "review-1").await;
    let found = verify(&server, ADMIN_TOKEN, &["--json"]).await;
    assert_eq!(found.status.code(), Some(0), "{}", shown(&found));
    let report: Value = serde_json::from_slice(&found.stdout).unwrap();
    let head = &report["organizations"][0]["head"];
    let head = format!("{}:{}", head["number"], head["hash"].as_str().unwrap());
    let found = verify(&server, ADMIN_TOKEN, &["--expect", &head]).await;
    let words = shown(&found);
    assert_eq!(found.status.code(), Some(0), "{words}");
    assert!(words.contains(&format!("acme: {head} is part of the chain")), "{words}");

    let forged = format!("0:{}", "0".repeat(64));
    assert_eq!(verify(&server, ADMIN_TOKEN, &["--expect", &forged]).await.status.code(), Some(1));
    for wrong in ["7", "x:y&a=b"] {
        assert_eq!(verify(&server, ADMIN_TOKEN, &["--expect", wrong]).await.status.code(), Some(2), "{wrong}");
    }
    let vic = server.admin().post("/tokens", serde_json::json!({ "name": "x", "user": "vic" })).await.created().data();
    let denied = verify(&server, vic["token"].as_str().unwrap(), &[]).await;
    assert_eq!(denied.status.code(), Some(2), "{}", shown(&denied));
    assert!(shown(&denied).contains("admin"), "{}", shown(&denied));

    assert!(server.terminate().success());
    let offline = super::verifying::verify(server.home(), &["--expect", &head]);
    assert_eq!(offline.status.code(), Some(0), "{}", shown(&offline));
    assert!(shown(&offline).contains(&format!("{head} is part of the chain")), "{}", shown(&offline));
}
