//! Secrets over the API: created, changed and deleted by maintainers, with values that nobody can read.

use std::path::Path;

use crate::support::waiting::column;
use crate::support::{Answer, Client, Server, Setup, assert_fields, assert_has, assert_is_time};
use reqwest::Method;
use serde_json::{Value, json};

const ACME: &str = include_str!("../../config/acme.toml");
const BETA: &str = r#"
organization = { id = "beta" }
members = [{ name = "bea", role = "admin" }]
[[pipelines]]
id = "web"
"#;
/// The text that is searched for everywhere.
const VALUE: &str = "hush-7f3e9d2c5a1b";

#[tokio::test]
async fn a_secret_is_made_changed_and_deleted_without_showing_its_value() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let body = json!({ "name": "DATABASE_PASSWORD", "value": VALUE, "description": "of the shop" });
    let made = mia.post("/secrets", body).await.created();
    let secret = made.data();
    assert_fields(&secret, "name description pipelineId version createdAt updatedAt");
    assert_has(&secret, json!({ "name": "DATABASE_PASSWORD", "description": "of the shop", "pipelineId": null }));
    assert_is_time(&secret["createdAt"]);
    assert_eq!(secret["createdAt"], secret["updatedAt"]);
    assert_eq!(made.header("location"), mia.path("/secrets/DATABASE_PASSWORD"));
    let shown = mia.get("/secrets/DATABASE_PASSWORD").await.ok();
    assert_eq!((shown.data(), shown.header("etag")), (secret.clone(), made.header("etag")));
    assert_eq!(with_header(&mia, "If-None-Match", made.header("etag")).await.status.as_u16(), 304);

    let changed = mia.put("/secrets/DATABASE_PASSWORD", json!({ "value": format!("{VALUE}-2") })).await.ok();
    assert_has(&changed.data(), json!({ "description": "of the shop", "createdAt": secret["createdAt"] }));
    assert!(changed.data()["version"].as_u64() > secret["version"].as_u64());
    assert_ne!(changed.header("etag"), made.header("etag"));
    let described = mia.put("/secrets/DATABASE_PASSWORD", json!({ "description": "" })).await.ok();
    assert_eq!(described.data()["description"], "");
    assert_eq!(mia.get("/secrets").await.ok().data(), json!([described.data()]));

    for answer in [&made, &shown, &changed, &described] {
        assert!(!answer.text.contains(VALUE), "{answer:?}");
    }
    mia.delete("/secrets/DATABASE_PASSWORD").await.has_status(204);
    mia.delete("/secrets/DATABASE_PASSWORD").await.refused(404, "secret_not_found");
    mia.get("/secrets/DATABASE_PASSWORD").await.refused(404, "secret_not_found");
    mia.put("/secrets/DATABASE_PASSWORD", json!({ "value": VALUE })).await.refused(404, "secret_not_found");
    assert_eq!(mia.get("/secrets").await.ok().json()["pagination"]["total"], 0);
}

#[tokio::test]
async fn a_name_is_unique_in_its_scope() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let secret = |pipeline: Value| json!({ "name": "KEY", "value": VALUE, "pipelineId": pipeline });
    mia.post("/secrets", secret(Value::Null)).await.created();
    let of_web = mia.post("/secrets", secret(json!("web"))).await.created();
    assert_eq!(of_web.header("location"), mia.path("/secrets/KEY?pipelineId=web"));
    mia.post("/secrets", secret(Value::Null)).await.refused(409, "secret_exists");
    mia.post("/secrets", secret(json!("web"))).await.refused(409, "secret_exists");
    let other = json!({ "name": "OTHER", "value": VALUE, "pipelineId": "web" });
    mia.post("/secrets", other).await.created();

    assert_eq!(column(&mia.get("/secrets").await.ok(), "pipelineId"), [json!(null), json!("web"), json!("web")]);
    assert_eq!(column(&mia.get("/secrets?pipelineId=web").await.ok(), "name"), [json!("KEY"), json!("OTHER")]);
    assert_eq!(mia.get("/secrets?pipelineId=shop").await.ok().data(), json!([]));
    let first = mia.get("/secrets?limit=1").await.ok();
    assert_eq!(first.json()["pagination"], json!({ "limit": 1, "offset": 0, "total": 3 }));
    let next = mia.send(mia.request(Method::GET, &first.link("next").unwrap())).await.ok();
    assert_eq!(next.data()[0]["pipelineId"], "web");

    mia.delete("/secrets/KEY?pipelineId=web").await.has_status(204);
    mia.get("/secrets/KEY?pipelineId=web").await.refused(404, "secret_not_found");
    mia.put("/secrets/KEY?pipelineId=shop", json!({ "value": VALUE })).await.refused(404, "secret_not_found");
    mia.get("/secrets/KEY").await.ok();
}

#[tokio::test]
async fn a_change_on_an_old_version_is_refused() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let old = mia.post("/secrets", json!({ "name": "KEY", "value": VALUE })).await.created();
    let new = mia.put("/secrets/KEY", json!({ "value": "x" })).await.ok();
    let path = mia.path("/secrets/KEY");
    let with = |method: Method, tag: &str| {
        let request = mia.request(method, &path).header("If-Match", tag);
        mia.send(request.json(&json!({ "value": "y" })))
    };
    for tag in [old.header("etag"), "\"nonsense\"", "7", "\"\""] {
        let refused = with(Method::PUT, tag).await.refused(412, "precondition_failed");
        assert_eq!(refused.json()["version"], new.data()["version"]);
        with(Method::DELETE, tag).await.refused(412, "precondition_failed");
    }
    let newer = with(Method::PUT, new.header("etag")).await.ok();
    let newest = with(Method::PUT, "*").await.ok();
    assert!(newest.data()["version"].as_u64() > newer.data()["version"].as_u64());
    with(Method::DELETE, &format!("{}, {}", old.header("etag"), newest.header("etag"))).await.has_status(204);
    let anew = mia.post("/secrets", json!({ "name": "KEY", "value": VALUE })).await.created();
    assert!(anew.data()["version"].as_u64() > newest.data()["version"].as_u64(), "no version is given twice");
}

#[tokio::test]
async fn all_that_is_wrong_is_told_at_once_and_never_with_the_value() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    let long = format!("{VALUE}{}", "x".repeat(16 * 1024));
    let cases: [(Value, &[&str]); 8] = [
        (json!({}), &["name", "value"]),
        (json!({ "name": "1A", "value": "" }), &["name", "value"]),
        (json!({ "name": "LOCKKEEPER_X", "value": format!("{VALUE}\0") }), &["name", "value"]),
        (json!({ "name": VALUE, "value": long }), &["name", "value"]),
        (json!({ "name": "A", "value": { "hush": VALUE } }), &["value"]),
        (json!({ "name": "A", "value": [VALUE], "description": 7 }), &["value", "description"]),
        (json!({ "name": "A", "value": VALUE, "pipelineId": "nowhere" }), &["pipelineId"]),
        (json!({ "name": "A", "value": VALUE, "colour": VALUE, "pipelineId": 7 }), &["pipelineId", "colour"]),
    ];
    for (body, expected) in cases {
        let refused = mia.post("/secrets", body.clone()).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), expected, "{body}");
        assert!(!refused.text.contains(VALUE), "{refused:?}");
    }
    mia.post("/secrets", json!({ "name": "A", "value": VALUE })).await.created();
    for (body, expected) in [
        (json!({}), "value"),
        (json!({ "value": null }), "value"),
        (json!({ "value": "" }), "value"),
        (json!({ "value": VALUE, "name": VALUE }), "name"),
        (json!({ "value": VALUE, "description": format!("{VALUE}\u{1b}") }), "description"),
    ] {
        let refused = mia.put("/secrets/A", body).await.refused(422, "invalid_request");
        assert_eq!(refused.faulty_fields(), [expected]);
        assert!(!refused.text.contains(VALUE), "{refused:?}");
    }
    for query in ["pipelineId=/", "pipelineId=a&pipelineId=b", &format!("value={VALUE}")] {
        let refused = mia.get(&format!("/secrets?{query}")).await.refused(400, "invalid_parameter");
        assert!(!refused.text.contains(VALUE), "{refused:?}");
    }
    mia.get("/secrets/1A").await.refused(404, "secret_not_found");
}

#[tokio::test]
async fn a_retry_gets_the_first_answer_and_another_value_under_its_key_is_refused() {
    let mut server = Server::start();
    let mia = server.as_user("mia").await;
    let body = json!({ "name": "KEY", "value": VALUE });
    let first = mia.post_with_key("/secrets", "once", body.clone()).await.created();
    for killed in [false, true] {
        if killed {
            server.kill();
            server.start_again();
        }
        let mia = mia.clone().at(&server);
        let again = mia.post_with_key("/secrets", "once", body.clone()).await.created();
        assert_eq!((again.header("idempotency-replayed"), &again.text), ("true", &first.text));
        assert_eq!(again.header("location"), first.header("location"));
        let other = json!({ "name": "KEY", "value": "other" });
        mia.post_with_key("/secrets", "once", other).await.refused(422, "idempotency_key_reused");
    }
}

#[tokio::test]
async fn who_reads_sees_which_secrets_there_are_and_only_maintainers_change_them() {
    let server = Server::start();
    server.admin().post("/secrets", json!({ "name": "KEY", "value": VALUE })).await.created();
    for name in ["vic", "ana"] {
        let client = server.as_user(name).await;
        assert_eq!(client.get("/secrets").await.ok().data()[0]["name"], "KEY");
        assert_eq!(client.get("/secrets/KEY").await.ok().data()["version"], 1);
        for refused in [
            client.post("/secrets", json!({ "name": "OTHER", "value": VALUE })).await,
            client.put("/secrets/KEY", json!({ "value": "x" })).await,
            client.delete("/secrets/KEY").await,
        ] {
            assert_eq!(refused.refused(403, "permission_denied").json()["requiredRole"], "maintainer");
        }
    }
}

#[tokio::test]
async fn another_organization_has_secrets_of_its_own() {
    let server = Setup::default().organization(ACME).organization(BETA).start();
    let acme = server.admin();
    acme.post("/secrets", json!({ "name": "KEY", "value": VALUE, "pipelineId": "web" })).await.created();
    let beta = acme.clone().in_organization("beta");
    beta.get("/secrets").await.refused(404, "organization_not_found");
    beta.get("/secrets/KEY?pipelineId=web").await.refused(404, "organization_not_found");
    beta.post("/secrets", json!({ "name": "KEY", "value": VALUE })).await.refused(404, "organization_not_found");
    beta.put("/secrets/KEY?pipelineId=web", json!({ "value": "x" })).await.refused(404, "organization_not_found");
    beta.delete("/secrets/KEY?pipelineId=web").await.refused(404, "organization_not_found");
    assert_eq!(acme.get("/secrets/KEY?pipelineId=web").await.ok().data()["version"], 1);
}

#[tokio::test]
async fn a_deleted_pipeline_takes_its_secrets_along() {
    let server = Server::start();
    let mia = server.as_user("mia").await;
    mia.put("/pipelines/passing", json!({})).await.created();
    mia.post("/secrets", json!({ "name": "KEY", "value": VALUE, "pipelineId": "passing" })).await.created();
    mia.post("/secrets", json!({ "name": "KEY", "value": VALUE })).await.created();
    mia.delete("/pipelines/passing").await.has_status(204);
    assert_eq!(column(&mia.get("/secrets").await.ok(), "pipelineId"), [Value::Null]);
    mia.put("/pipelines/passing", json!({})).await.created();
    mia.get("/secrets/KEY?pipelineId=passing").await.refused(404, "secret_not_found");
}

#[tokio::test]
async fn secrets_outlive_the_server() {
    let mut server = Server::start();
    let mia = server.as_user("mia").await;
    let made = mia.post("/secrets", json!({ "name": "KEY", "value": VALUE })).await.created();
    server.kill();
    server.start_again();
    let mia = mia.at(&server);
    assert_eq!(mia.get("/secrets/KEY").await.ok().data(), made.data());
    // Changing its description keeps its value.
    mia.put("/secrets/KEY", json!({ "description": "after a restart" })).await.ok();
}

#[tokio::test]
async fn a_value_is_in_no_log_and_no_file() {
    let settings = "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\n[log]\nfilter = \"trace\"\n";
    let mut server = Setup::default().settings(settings).start();
    let mia = server.as_user("mia").await;
    mia.post_with_key("/secrets", "once", json!({ "name": "KEY", "value": VALUE })).await.created();
    mia.post("/secrets", json!({ "name": "KEY", "value": VALUE })).await.refused(409, "secret_exists");
    mia.put("/secrets/KEY", json!({ "value": format!("{VALUE}-2") })).await.ok();
    let path = mia.path("/secrets");
    for bad in [format!("{{\"name\": \"KEY\", \"value\": \"{VALUE}"), format!("{{\"{VALUE}\": 1}}"), VALUE.to_owned()] {
        let request = mia.request(Method::POST, &path).header("content-type", "application/json");
        assert!(mia.send(request.body(bad)).await.status.is_client_error());
    }
    mia.get(&format!("/secrets?value={VALUE}")).await.refused(400, "invalid_parameter");
    assert!(server.terminate().success());
    assert!(server.log().contains("TRACE") && server.log().contains("secret created"), "the log has been kept");
    assert!(!server.log().contains("TRACE sled"), "the engine of the store would write out each record, byte by byte");
    let mut files = 0;
    search(server.home(), &mut files);
    assert!(files >= 4, "only {files} files");
}

fn search(folder: &Path, files: &mut usize) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path, files);
            continue;
        }
        *files += 1;
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes());
        assert!(!found, "the value is in {}", path.display());
    }
}

async fn with_header(client: &Client, name: &str, value: &str) -> Answer {
    let request = client.request(Method::GET, &client.path("/secrets/DATABASE_PASSWORD")).header(name, value);
    client.send(request).await
}
