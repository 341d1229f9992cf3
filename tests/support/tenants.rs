//! Two organizations on one server.

use serde_json::json;

use super::{Client, Server, Setup};

pub const ACME: &str = include_str!("../../config/acme.toml");
pub const BETA: &str = r#"
organization = { id = "beta" }
members = [{ name = "bea", role = "admin" }]
[[pipelines]]
id = "web"
environments = [{ name = "review-1" }, { name = "review-2" }, { name = "review-3" }]
"#;

/// The sample organization, `acme`, and `beta` with a separate pipeline; the client is beta's admin.
pub async fn acme_and_beta(setup: impl Fn() -> Setup) -> (Server, Client) {
    // The operator's token belongs to the admin of whichever organization is first.
    let mut server = setup().organization(BETA).organization(ACME).start();
    let made = server.admin().in_organization("beta").post("/tokens", json!({ "name": "test" })).await.created();
    let token = made.data()["token"].as_str().unwrap().to_owned();
    assert!(server.terminate().success());
    server.change_setup(|_| setup().organization(ACME).organization(BETA));
    server.start_again();
    let bea = server.with_token(&token).in_organization("beta");
    (server, bea)
}
