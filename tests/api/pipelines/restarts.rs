//! How pipelines survive a restart, and how a changed file affects them.

use serde_json::json;

use super::{WEB, full, full_as_shown};
use crate::support::{Server, Setup};

const ACME: &str = include_str!("../../../config/acme.toml");

fn restart(server: &mut Server, organization: &str) {
    server.kill();
    server.change_setup(|_| Setup::default().organization(organization));
    server.start_again();
}

#[tokio::test]
async fn what_the_api_did_holds_after_a_restart_until_the_file_says_something_else() {
    let mut server = Setup::default().organization(ACME).start();
    let admin = server.admin();
    admin.put("/pipelines/new", full()).await.created();
    admin.put(WEB, json!({ "name": "by hand" })).await.ok();
    let stopped = admin.post("/pipelines/web/stop", json!({ "reason": "moving" })).await.ok().data();
    let new = admin.get("/pipelines/new").await.ok();

    restart(&mut server, ACME);
    let admin = server.admin();
    let found = admin.get("/pipelines/new").await.ok();
    assert_eq!((found.data(), found.header("etag")), (new.data(), new.header("etag")));
    crate::support::assert_has(&found.data(), full_as_shown());
    assert_eq!(admin.get(WEB).await.ok().data(), stopped);

    restart(&mut server, &ACME.replace("name = \"Web shop\"", "name = \"Shop on the web\""));
    let web = server.admin().get(WEB).await.ok().data();
    assert_eq!((&web["name"], &web["status"]), (&json!("Shop on the web"), &json!("stopped")));
    assert_eq!(web["stoppedAt"], stopped["stoppedAt"]);
}

#[tokio::test]
async fn a_deleted_pipeline_stays_deleted_until_its_declaration_changes() {
    let mut server = Setup::default().organization(ACME).start();
    let admin = server.admin();
    for name in ["staging-1", "staging-2"] {
        admin.delete(&format!("/pipelines/shop/ephemeral-environments/{name}")).await.has_status(204);
    }
    admin.delete("/pipelines/shop").await.has_status(204);
    restart(&mut server, ACME);
    server.admin().get("/pipelines/shop").await.refused(404, "pipeline_not_found");

    // A newly declared environment does not restore its deleted pipeline, and is created when the pipeline returns.
    let environment = ACME.replace("name = \"staging-2\"", "name = \"staging-3\"");
    restart(&mut server, &environment);
    server.admin().get("/pipelines/shop").await.refused(404, "pipeline_not_found");
    restart(&mut server, &environment.replace("name = \"Shop backend\"", "name = \"Shop\""));
    let shop = server.admin().get("/pipelines/shop").await.ok().data();
    assert_eq!((&shop["name"], &shop["environmentCount"]), (&json!("Shop"), &json!(1)));
}
