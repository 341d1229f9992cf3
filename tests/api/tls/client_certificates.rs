//! Clients that present a certificate: off, optional and required.

use reqwest::Method;
use serde_json::json;

use super::{Site, metric, until};
use crate::support::Server;
use crate::support::authority::{Authority, Issued};
use crate::support::wire::{Wire, head};

/// Whether a client gets an answer; with TLS 1.3 it learns of a refusal only then.
async fn is_served(site: &Site, server: &Server, identity: Option<&Issued>) -> bool {
    let Ok(stream) = site.connect(server, identity).await else { return false };
    let mut wire = Wire::over(stream);
    wire.send(head("GET", "/healthz") + "\r\n").await;
    wire.answer().await.is_some_and(|answer| answer.status == 200)
}

#[tokio::test]
async fn required_means_no_connection_without_a_good_one() {
    let site = Site::new();
    let machines = Authority::new("machines");
    site.write("machines.pem", &machines.certificate);
    let folder = site.folder.path().display();
    let asking = |how: &str| format!("client_certificates = \"{how}\"\nclient_ca = \"{folder}/machines.pem\"\n");
    let good = machines.issue_for_client("runner-1");
    let foreign = Authority::new("machines").issue_for_client("runner-1");
    let of_server = machines.issue(&["runner-1"]);

    let server = site.setup(&(asking("required") + "plain_listen = \"127.0.0.1:0\"\n")).start();
    for (identity, served) in [(None, false), (Some(&good), true), (Some(&foreign), false), (Some(&of_server), false)] {
        assert_eq!(is_served(&site, &server, identity).await, served, "{identity:?}");
    }
    // It authenticates nobody: a token is required as well.
    let anonymous = server.anonymous().over(site.http(Some(&good)));
    anonymous.get("/pipelines").await.refused(401, "missing_token");
    let admin = server.admin().over(site.http(Some(&good)));
    admin.claim("review-1", json!({})).await.created();
    let failed = "lockkeeper_tls_handshakes_total{outcome=\"failed\"}";
    until("refusals are counted", async || metric(&admin, failed).await == 3).await;
    assert!(metric(&admin, "lockkeeper_tls_handshakes_total{outcome=\"certified\"}").await >= 3);
    until("and logged", async || server.log().contains("peer sent no certificates")).await;
    drop(server);

    let server = site.setup(&asking("optional")).start();
    for (identity, served) in [(None, true), (Some(&good), true), (Some(&foreign), false)] {
        assert_eq!(is_served(&site, &server, identity).await, served, "{identity:?}");
    }
    let admin = site.admin(&server);
    assert_eq!(metric(&admin, "lockkeeper_tls_handshakes_total{outcome=\"certified\"}").await, 1);
    drop(server);

    let server = site.start();
    for identity in [None, Some(&good), Some(&foreign)] {
        assert!(is_served(&site, &server, identity).await, "nobody asks for one");
    }
}

#[tokio::test]
async fn an_authority_that_is_gone_lets_nobody_in_from_then_on() {
    let site = Site::new();
    let (old, new) = (Authority::new("machines"), Authority::new("machines"));
    site.write("machines.pem", &old.certificate);
    let folder = site.folder.path().display();
    let required = format!("client_certificates = \"required\"\nclient_ca = \"{folder}/machines.pem\"\n");
    let server = site.setup(&required).start();
    let (before, after) = (old.issue_for_client("runner-1"), new.issue_for_client("runner-1"));
    // One client keeps the state for resuming a session.
    let keeper = server.admin().over(site.http(Some(&before)));
    keeper.send(keeper.request(Method::GET, "/healthz")).await.ok();
    site.write("machines.pem", &new.certificate);
    server.signal("-HUP");
    until("the new authority counts", async || is_served(&site, &server, Some(&after)).await).await;
    assert!(!is_served(&site, &server, Some(&before)).await);
    let mut renewed = server.admin().over(site.http(Some(&before)));
    assert!(renewed.try_send(renewed.request(Method::GET, "/healthz")).await.is_err());
    renewed = server.admin().over(site.http(Some(&after)));
    renewed.send(renewed.request(Method::GET, "/healthz")).await.ok();
}
