//! The identity of a caller, from the token alone.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{ADMIN_TOKEN, Client, Server, Setup, assert_fields, assert_has};

const PATH: &str = "/api/v1/whoami";

async fn ask(client: &Client) -> Value {
    client.send(client.request(Method::GET, PATH)).await.ok().data()
}

#[tokio::test]
async fn a_token_says_whose_it_is_and_where_it_works() {
    let server = Server::start();
    let told = ask(&server.admin()).await;
    assert_fields(&told, "organization user role token");
    assert_eq!(told["organization"], json!({ "id": "acme", "name": "Acme" }));
    assert_fields(&told["user"], "userId name email");
    assert_has(&told["user"], json!({ "name": "admin", "email": null }));
    assert_eq!(told["role"], "admin");
    assert_fields(&told["token"], "tokenId name expiresAt");
    assert_has(&told["token"], json!({ "name": "bootstrap", "expiresAt": null }));
    let listed = server.admin().get("/tokens").await.ok().data();
    assert_eq!(listed[0]["tokenId"], told["token"]["tokenId"]);

    let body = json!({ "name": "ci", "user": "vic", "expiresAt": "2999-01-31T00:00:00Z" });
    let made = server.admin().post("/tokens", body).await.created().data();
    let told = ask(&server.with_token(made["token"].as_str().unwrap())).await;
    assert_has(&told["user"], json!({ "name": "vic", "userId": made["user"]["userId"] }));
    let token = json!({ "tokenId": made["tokenId"], "name": "ci", "expiresAt": "2999-01-31T00:00:00.000Z" });
    assert_eq!((&told["role"], &told["token"]), (&json!("viewer"), &token), "every role may ask");
}

#[tokio::test]
async fn the_role_is_the_one_of_now_and_who_is_removed_is_told_so() {
    let server = Server::start();
    let (admin, ana) = (server.admin(), server.as_user("ana").await);
    let id = ask(&ana).await["user"]["userId"].as_str().unwrap().to_owned();
    let member = admin.path(&format!("/members/{id}"));
    for role in ["maintainer", "viewer"] {
        let change = admin.request(Method::PATCH, &member).json(&json!({ "role": role }));
        admin.send(change).await.ok();
        assert_eq!(ask(&ana).await["role"], role);
    }
    admin.send(admin.request(Method::DELETE, &member)).await.has_status(204);
    ana.send(ana.request(Method::GET, PATH)).await.refused(401, "invalid_token");
}

#[tokio::test]
async fn nothing_but_a_token_is_taken() {
    let server = Server::start();
    let (admin, anonymous) = (server.admin(), server.anonymous());
    anonymous.send(anonymous.request(Method::GET, PATH)).await.refused(401, "missing_token");
    let refused = admin.send(admin.request(Method::GET, &format!("{PATH}?verbose=1"))).await;
    assert_eq!(refused.refused(400, "invalid_parameter").faulty_fields(), ["verbose"]);
    let refused = admin.send(admin.request(Method::POST, PATH)).await.refused(405, "method_not_allowed");
    assert_eq!(refused.header("allow"), "GET, HEAD");
    admin.send(admin.request(Method::GET, &format!("{PATH}/"))).await.ok();
    admin.send(admin.request(Method::GET, "/whoami")).await.refused(404, "route_not_found");
}

#[tokio::test]
async fn an_organization_without_a_name_is_called_by_its_id() {
    let beta = "organization = { id = \"beta\" }\nmembers = [{ name = \"bea\", role = \"admin\" }]\n";
    let server = Setup::default().organization(beta).start();
    let bea = server.with_token(ADMIN_TOKEN);
    assert_eq!(ask(&bea).await["organization"], json!({ "id": "beta", "name": "beta" }));
}
