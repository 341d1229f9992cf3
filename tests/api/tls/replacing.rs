//! A certificate that is replaced while the server runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use super::{Site, metric, until};
use crate::support::waiting::until_found;
use crate::support::wire::head;

const ACME: &str = include_str!("../../../config/acme.toml");

#[tokio::test]
async fn under_load_no_request_is_dropped_and_new_connections_get_the_new_one() {
    const REPLACED: usize = 10;
    let site = Arc::new(Site::new());
    let server = Arc::new(site.start());
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = Vec::new();
    for kept in [true, true, false, false] {
        let (site, server) = (site.clone(), server.clone());
        let (stop, answered) = (stop.clone(), answered.clone());
        clients.push(tokio::spawn(async move {
            let admin = site.admin(&server);
            while !stop.load(Ordering::Relaxed) {
                // Half of them keep their connection, half of them need a new one for each request.
                let client = if kept { admin.clone() } else { site.admin(&server) };
                let request = client.request(Method::GET, "/readyz");
                client.try_send(request).await.expect("no request is dropped").ok();
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let mut kept = site.wire(&server).await;
    for _ in 0..REPLACED {
        let new = site.authority.issue(&["localhost"]);
        let before = answered.load(Ordering::Relaxed);
        site.install(&new);
        server.signal("-HUP");
        until("new connections get the new certificate", async || site.shows(&server, &new).await).await;
        until("the load goes on", async || answered.load(Ordering::Relaxed) > before + 8).await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    // A connection from before all of them still works.
    kept.send(head("GET", "/healthz") + "\r\n").await;
    kept.answer().await.unwrap().ok();
    let admin = site.admin(&server);
    let replaced = metric(&admin, "lockkeeper_tls_reloads_total{outcome=\"replaced\"}").await;
    assert!(replaced >= REPLACED as u64, "{replaced}");
    println!("{} requests answered over {replaced} certificates, none dropped", answered.load(Ordering::Relaxed));
}

#[tokio::test]
async fn it_is_noticed_without_a_signal() {
    let site = Site::new();
    let server = site.start();
    let new = site.authority.issue(&["localhost"]);
    site.install(&new);
    until("the files are read again", async || site.shows(&server, &new).await).await;
    let told = "new connections get the new certificate, for localhost, until 2100-01-01";
    until("it is told", async || server.log().contains(told)).await;
}

#[tokio::test]
async fn files_that_do_not_fit_change_nothing_and_are_told_once() {
    let site = Site::new();
    let old = site.authority.issue(&["localhost"]);
    site.install(&old);
    let server = site.start();
    let admin = site.admin(&server);
    let refused = "lockkeeper_tls_reloads_total{outcome=\"refused\"}";
    let new = site.authority.issue(&["localhost"]);
    for (count, name, text, told) in [
        (1, "cert.pem", &new.certificate[..200], "tls.certificate: the file is not PEM: it ends within a section"),
        (2, "cert.pem", &new.certificate, "tls.key: does not belong to tls.certificate"),
        (3, "key.pem", "", "tls.key: the file has no private key in PEM"),
    ] {
        site.write(name, text);
        server.signal("-HUP");
        until(told, async || metric(&admin, refused).await == count).await;
        // A second request gives the same result.
        server.signal("-HUP");
        assert!(site.shows(&server, &old).await, "{told}");
        until("it is logged", async || server.log().contains(told)).await;
    }
    std::fs::remove_file(site.path("key.pem")).unwrap();
    server.signal("-HUP");
    until("a missing file is noticed", async || metric(&admin, refused).await == 4).await;
    assert!(server.log().contains("key.pem`: the file does not exist"), "{}", server.log());
    site.install(&new);
    server.signal("-HUP");
    until("a good pair is used", async || site.shows(&server, &new).await).await;
    admin.claim("review-1", json!({})).await.created();
    let log = server.log();
    for told in ["tls.certificate: the file is not PEM", "tls.key: does not belong", "the file does not exist"] {
        let by_poll =
            |line: &&str| line.contains(told) && line.contains("new connections still get the old certificate");
        assert_eq!(log.lines().filter(by_poll).count(), 1, "{told}\n{log}");
    }
    assert!(!log.contains("BEGIN PRIVATE KEY-----\n") && !log.contains(new.key.lines().nth(1).unwrap()), "{log}");
}

#[tokio::test]
async fn a_reload_takes_over_certificate_and_files_together_or_nothing() {
    let site = Site::new();
    let server = site.setup("").organization(ACME).start();
    let organization = server.home().join("organization-0.toml");
    let refused = "nothing is reloaded, and the next start will be refused";
    let is_logged = |part: &str, times: usize| server.log().matches(part).count() >= times;

    // A bad certificate prevents a change of the log filter.
    let good = site.authority.issue(&["localhost"]);
    site.write("cert.pem", &good.certificate);
    let settings = server.home().join("settings.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text + "[log]\nfilter = \"debug\"\n").unwrap();
    server.signal("-HUP");
    until(refused, async || is_logged(refused, 1)).await;
    let log = server.log();
    assert!(log.contains("tls.key: does not belong to tls.certificate") && !log.contains("reloaded changed"), "{log}");
    site.admin(&server).claim("review-1", json!({})).await.created();
    assert!(!server.log().contains("session.claimed"), "the filter is still the old one: {}", server.log());
    site.write("key.pem", &good.key);
    server.signal("-HUP");
    until("it is good again", async || is_logged("reloaded changed=\"log.filter\"", 1)).await;
    until("its certificate is used", async || site.shows(&server, &good).await).await;

    // A bad organization file prevents a reload of the certificate. The poll reloads it later: this checks before.
    let mut refusals = 1;
    let is_kept = until_found("a reload between two polls", async || {
        let next = site.authority.issue(&["localhost"]);
        site.install(&next);
        until("the poll takes it", async || site.shows(&server, &next).await).await;
        let polled = Instant::now();
        std::fs::write(&organization, "no TOML").unwrap();
        let last = site.authority.issue(&["localhost"]);
        site.install(&last);
        server.signal("-HUP");
        refusals += 1;
        until(refused, async || is_logged(refused, refusals)).await;
        let is_kept = !site.shows(&server, &last).await;
        // The next poll is not due shortly after the last one.
        let is_between = polled.elapsed() < Duration::from_secs(4);
        (is_between || is_kept).then_some(is_kept)
    });
    assert!(is_kept.await, "{}", server.log());
}
