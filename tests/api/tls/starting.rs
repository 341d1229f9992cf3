//! TLS from the operator's view: at the start, in a check, and in answers.

use std::os::unix::fs::PermissionsExt;

use reqwest::Method;
use serde_json::json;

use super::{Site, metric, until};
use crate::support::{ADMIN_TOKEN, Client, Server, Setup, lockkeeper, refusal};

#[tokio::test]
async fn two_lines_are_enough_and_what_is_printed_knows_of_it() {
    let site = Site::new();
    let server = site.start();
    let (address, port) = (&server.address, server.port());
    assert_eq!(*address, format!("https://localhost:{port}"));
    for line in [
        format!("serves on {address}\n"),
        format!("API explorer:  {address}/docs/\n"),
        "Certificate:   for localhost, until 2100-01-01T00:00:00Z\n".to_owned(),
    ] {
        assert!(server.greeting.contains(&line), "{line} is not in {}", server.greeting);
    }
    assert!(!server.greeting.contains("http://"), "{}", server.greeting);
    let admin = site.admin(&server);
    let claimed = admin.claim("review-1", json!({ "commitId": "c0ffee1" })).await.created();
    assert!(claimed.header("location").starts_with("/api/v1/"), "{claimed:?}");
    assert!(!server.log().contains("tls.certificate"), "nothing to warn of: {}", server.log());
    let expires = metric(&admin, "lockkeeper_tls_certificate_expires_timestamp_seconds").await;
    assert_eq!(expires, 4_102_444_800);
}

#[tokio::test]
async fn browsers_are_told_to_come_back_with_tls_unless_they_are_told_nothing() {
    let hsts = async |server: &Server, client: &Client, host: &str| {
        let mut answers = Vec::new();
        for path in ["/docs/", "/nowhere"] {
            let request = client.request(Method::GET, path).header("Host", host);
            answers.push(client.send(request).await.header("strict-transport-security").to_owned());
        }
        assert_eq!(answers[0], answers[1], "{}", server.address);
        answers.remove(0)
    };
    let site = Site::new();
    let server = site.setup("plain_listen = \"127.0.0.1:0\"\n").start();
    let admin = site.admin(&server);
    assert_eq!(hsts(&server, &admin, "lock.example").await, "max-age=31536000");
    assert_eq!(hsts(&server, &admin, "localhost:8443").await, "");
    let plain = server.admin().at_address(&plain_address(&server));
    assert_eq!(hsts(&server, &plain, "lock.example").await, "", "not without TLS");
    let server = site.setup("hsts_seconds = 0\n").start();
    assert_eq!(hsts(&server, &site.admin(&server), "lock.example").await, "");
}

#[tokio::test]
async fn a_plain_listener_beside_it_serves_the_same() {
    let site = Site::new();
    let mut server = site.setup("plain_listen = \"127.0.0.1:0\"\n").start();
    let plain = server.admin().at_address(&plain_address(&server));
    let held = site.admin(&server).claim("review-1", json!({})).await.created().session();
    plain.release("review-1", &held).await.ok();
    assert!(server.terminate().success());
    // Both addresses are free again.
    server.start_again();
}

#[test]
fn everything_that_is_wrong_is_told_before_anything_starts() {
    let site = Site::new();
    let home = tempfile::tempdir().unwrap();
    site.write("cert.pem", "nothing");
    std::fs::remove_file(site.path("key.pem")).unwrap();
    let more = "client_certificates = \"required\"\nclient_ca = \"gone.pem\"\nplain_listen = \"0.0.0.0:1\"\n";
    let (code, told) = refusal(&site.setup(more), home.path());
    assert_eq!(code, 78, "{told}");
    for part in [
        "the configuration has 4 faults",
        "settings.toml:6: tls.certificate: the file has no certificate in PEM",
        "settings.toml:7: tls.key: cannot read `",
        "settings.toml:9: tls.client_ca: cannot read `",
        "settings.toml:10: tls.plain_listen must be an address of this machine alone",
    ] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
    assert!(!home.path().join("data").exists());
    // Other commands need no certificate: this one fails only because there is no data.
    let data = home.path().join("data");
    let mut verify = lockkeeper(&["audit", "verify", "--config"]);
    let plain = site.settings("");
    std::fs::write(home.path().join("settings.toml"), plain).unwrap();
    let output = verify.arg(home.path().join("settings.toml")).arg("--data-dir").arg(&data).output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("tls."), "{output:?}");
}

#[test]
fn a_pair_that_does_not_belong_together_and_one_of_concern_are_found_by_a_check() {
    let site = Site::new();
    let settings = site.path("settings.toml");
    std::fs::write(&settings, site.settings("")).unwrap();
    let check = || {
        let output = lockkeeper(&["check"]).arg(&settings).output().unwrap();
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code().unwrap(), told)
    };
    let (code, told) = check();
    assert!(code == 0 && !told.contains("warning"), "{told}");
    site.install(&site.authority.issue_for(&["localhost"], [2020, 2021]));
    std::fs::set_permissions(site.path("key.pem"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, told) = check();
    assert_eq!(code, 0, "{told}");
    for part in [
        "warning: tls.certificate: the certificate expired on 2021-01-01T00:00:00Z",
        "warning: tls.key: every user of this machine can read",
    ] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
    site.write("key.pem", &site.authority.issue(&["localhost"]).key);
    let (code, told) = check();
    assert!(code == 78 && told.contains("settings.toml:6: tls.key: does not belong to tls.certificate"), "{told}");
}

#[tokio::test]
async fn an_expired_certificate_is_served_with_a_warning() {
    let site = Site::new();
    site.install(&site.authority.issue_for(&["localhost"], [2020, 2021]));
    std::fs::set_permissions(site.path("key.pem"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let server = site.setup("plain_listen = \"127.0.0.1:0\"\n").start();
    until("it is told", async || {
        let log = server.log();
        log.contains("the certificate expired on 2021-01-01T00:00:00Z") && log.contains("every user of this machine")
    })
    .await;
    let plain = server.admin().at_address(&plain_address(&server));
    let expires = "lockkeeper_tls_certificate_expires_timestamp_seconds";
    until("it is in the metrics", async || metric(&plain, expires).await == 1_609_459_200).await;
    let new = site.authority.issue(&["localhost"]);
    site.install(&new);
    server.signal("-HUP");
    until("a new one is used", async || metric(&plain, expires).await == 4_102_444_800).await;
    site.admin(&server).environment("review-1").await.ok();
}

#[test]
fn two_lines_from_the_environment_do_as_well() {
    let site = Site::new();
    let path = |name: &str| site.path(name).to_str().unwrap().to_owned();
    let setup = Setup::default()
        .variable("LOCKKEEPER_TLS_CERTIFICATE", &path("cert.pem"))
        .variable("LOCKKEEPER_TLS_KEY", &path("key.pem"))
        .variable("LOCKKEEPER_BOOTSTRAP_TOKEN", ADMIN_TOKEN);
    assert!(setup.start().address.starts_with("https://localhost:"));
}

fn plain_address(server: &Server) -> String {
    let line = server.greeting.lines().find_map(|line| line.strip_prefix("Plain HTTP:    ")).unwrap();
    line.split(',').next().unwrap().to_owned()
}
