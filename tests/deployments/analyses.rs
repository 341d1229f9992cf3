//! Analyses of failed deployments, which a real server has really run.

mod asking;
mod finding;
mod model;
mod restarting;

use serde_json::{Value, json};

use crate::site::{ENVIRONMENT, Site, id, is_finished};
use crate::support::Answer;

/// A deployment of this commit that has ended.
async fn deployed(site: &Site, session: &str, commit: &str) -> Value {
    let made = site.admin.deploy(ENVIRONMENT, session, json!({ "commitId": commit })).await.has_status(202);
    site.until(&id(&made), is_finished).await
}

/// A deployment that failed, by its id.
async fn failed(site: &Site) -> String {
    let deployment = site.run().await;
    assert_eq!(deployment["status"], "failed", "{deployment:#}");
    deployment["deploymentId"].as_str().unwrap().to_owned()
}

async fn ask(site: &Site, deployment: &str, body: Value) -> Answer {
    site.admin.post(&format!("/deployments/{deployment}/analyses"), body).await
}

/// An analysis that has ended.
async fn analysed(site: &Site, deployment: &str) -> Value {
    ask(site, deployment, json!({ "waitSeconds": 60 })).await.has_status(200).data()
}

fn path_of(analysis: &Value) -> String {
    format!("/analyses/{}", analysis["analysisId"].as_str().unwrap())
}

/// Waits for its end.
async fn ended(site: &Site, analysis: &Value) -> Value {
    site.admin.until(&path_of(analysis), |found| found["status"] != "running").await
}
