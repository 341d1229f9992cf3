//! Common programs: curl, openssl and Python.

use std::process::{Command, Output, Stdio};

use reqwest::Method;

use super::{Site, has};
use crate::support::{ADMIN_TOKEN, Server, at};

#[test]
fn curl_is_served_and_told_where_tls_is_missing() {
    if !has("curl", "--version") {
        return;
    }
    let site = Site::new();
    let server = site.start();
    let curl = |arguments: &[&str], url: &str| {
        let mut command = Command::new("curl");
        let output = command.args(["-sS", "-i", "--max-time", "30"]).args(arguments).arg(url).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let ca = site.path("ca.pem");
    let trust = ["--cacert", ca.to_str().unwrap()];
    let healthz = format!("{}/healthz", server.address);
    assert!(healthz.starts_with("https://localhost:"), "{healthz}");
    for version in ["--http1.1", "--http1.0", "--http2", "--tlsv1.2", "--tlsv1.3"] {
        let (code, told) = curl(&[&trust[..], &[version]].concat(), &healthz);
        assert!(code == 0 && told.contains(" 200 ") && told.contains("alive"), "{version}: {code} {told}");
        assert!(told.starts_with("HTTP/1."), "{version}: {told}");
    }
    let (code, told) = curl(&[], &healthz);
    assert_eq!(code, 60, "an unknown authority: {told}");
    let (code, told) = curl(&[], &healthz.replace("https://", "http://"));
    assert!(code == 0 && told.starts_with("HTTP/1.1 400 "), "{code} {told}");
    assert!(told.contains("Use https:// instead of http://"), "{told}");
    // A token that was sent that way is not examined.
    let (code, told) = curl(&["-H", &format!("Authorization: Bearer {ADMIN_TOKEN}")], &healthz.replace("s://", "://"));
    assert!(code == 0 && told.starts_with("HTTP/1.1 400 "), "{code} {told}");
}

#[test]
fn old_versions_and_weak_suites_are_refused() {
    if !has("openssl", "version") {
        return;
    }
    let site = Site::new();
    let server = site.start();
    for (arguments, suite) in [
        (&["-tls1_3"][..], "TLS_AES_256_GCM_SHA384"),
        (&["-tls1_2"], "ECDHE-ECDSA-AES256-GCM-SHA384"),
        (&["-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"], "TLS_CHACHA20_POLY1305_SHA256"),
    ] {
        let Output { status, stdout, stderr } = s_client(&site, &server, arguments);
        let told = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
        assert!(status.success() && told.contains(suite), "{arguments:?}: {told}");
        assert!(told.contains("Verification: OK") && told.contains("ALPN protocol: http/1.1"), "{arguments:?}: {told}");
    }
    for (arguments, reason) in [
        (&["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"][..], "alert handshake failure"),
        (&["-tls1", "-cipher", "DEFAULT@SECLEVEL=0"], "alert handshake failure"),
        // Without weak key exchange and encryption.
        (&["-tls1_2", "-cipher", "AES128-GCM-SHA256:AES256-SHA@SECLEVEL=0"], "alert handshake failure"),
        (&["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA@SECLEVEL=0"], "alert handshake failure"),
        (&["-tls1_3", "-alpn", "h2"], "alert no application protocol"),
    ] {
        let Output { status, stderr, .. } = s_client(&site, &server, arguments);
        let told = String::from_utf8_lossy(&stderr).into_owned();
        assert!(!status.success() && told.contains(reason), "{arguments:?}: {told}");
    }
}

#[tokio::test]
async fn python_claims_streams_and_releases() {
    if !has("python3", "--version") {
        return;
    }
    let site = Site::new();
    let server = site.start();
    let admin = site.admin(&server);
    let environment = admin.path(&at("review-1"));
    let script = r#"
import http.client, json, ssl, sys
port, ca, token, environment, events = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
def connect():
    return http.client.HTTPSConnection("localhost", int(port), context=context, timeout=60)
def ask(connection, method, path, body=None):
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json", "Last-Event-ID": "start"}
    connection.request(method, path, body=body, headers=headers)
    return connection.getresponse()
connection = connect()
claimed = ask(connection, "POST", environment + "/sessions", json.dumps({"context": "python"}))
session = json.load(claimed)["data"]["sessionId"]
# A stream stays open beside it.
stream = ask(connect(), "GET", events)
while b"session.claimed" not in stream.readline():
    pass
released = ask(connection, "DELETE", environment + "/sessions/" + session)
released.read()
while b"session.released" not in stream.readline():
    pass
bundle = ask(connection, "GET", "/docs/swagger-ui-bundle.js").read()
print(connection.sock.version(), claimed.status, released.status, len(bundle) > 1000000, claimed.headers["Location"])
"#;
    let port = server.port().to_string();
    let ca = site.path("ca.pem");
    let output = tokio::task::spawn_blocking({
        let (environment, events) = (environment.clone(), admin.path("/events/stream"));
        move || {
            let mut python = Command::new("python3");
            python.args(["-c", script, &port]).arg(ca).args([ADMIN_TOKEN, &environment, &events]).output()
        }
    });
    let Output { status, stdout, stderr } = output.await.unwrap().unwrap();
    let told = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    assert!(told.starts_with(&format!("TLSv1.3 201 200 True {environment}/sessions/ses_")), "{told}");
    let metrics = admin.send(admin.request(Method::GET, "/metrics")).await.ok().text;
    assert!(metrics.contains("lockkeeper_tls_handshakes_total{outcome=\"anonymous\"}"), "{metrics}");
}

fn s_client(site: &Site, server: &Server, arguments: &[&str]) -> Output {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &format!("127.0.0.1:{}", server.port()), "-servername", "localhost"]);
    command.arg("-CAfile").arg(site.path("ca.pem")).args(["-verify_return_error", "-alpn", "http/1.1"]);
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}
