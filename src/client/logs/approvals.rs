//! Says on stderr when the deployment whose log is followed waits for an approval.

use std::convert::Infallible;
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use crate::api::{ANSWER_WITHIN, Api};
use crate::output::text::harmless;
use crate::output::{note, text_of};
use crate::retry;

/// How long the server waits for a change of the deployment before it answers without one.
const WAIT_SECONDS: u64 = 50;

/// As long as it is polled.
pub async fn announce(api: &Api, deployment: &str) -> Infallible {
    let mut etag: Option<String> = None;
    let (mut announced, mut attempt) = (String::new(), 0);
    loop {
        let wait = if etag.is_some() { WAIT_SECONDS } else { 0 };
        let mut call = api.call(Method::GET, &format!("/deployments/{deployment}?waitSeconds={wait}"));
        call.timeout = ANSWER_WITHIN + Duration::from_secs(WAIT_SECONDS);
        call.headers.extend(etag.clone().map(|etag| ("If-None-Match", etag)));
        let Ok(answer) = api.send(call).await else {
            // The log itself tells troubles; this is a courtesy.
            tokio::time::sleep(retry::pause(attempt, None, rand::random())).await;
            attempt = attempt.saturating_add(1);
            continue;
        };
        attempt = 0;
        if let Some((stage, approval)) = pending(&answer.data)
            && approval != announced
        {
            approval.clone_into(&mut announced);
            note(&harmless(&format!("stage {stage} waits for an approval: lockkeeper approve {approval}")));
        }
        etag = answer.etag.or(etag);
    }
}

/// The stage that waits, and its approval.
fn pending(deployment: &Value) -> Option<(&str, &str)> {
    let stages = deployment["stages"].as_array()?;
    let waiting = stages.iter().find(|stage| text_of(&stage["approval"], "status") == "pending")?;
    Some((text_of(waiting, "name"), text_of(waiting, "approvalId")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_stage_that_waits_is_found() {
        let approved = json!({ "name": "test", "approvalId": "apr_1", "approval": { "status": "approved" } });
        let waiting = json!({ "name": "deploy", "approvalId": "apr_2", "approval": { "status": "pending" } });
        let plain = json!({ "name": "build", "approvalId": null, "approval": null });
        let deployment = json!({ "stages": [plain, approved, waiting] });
        assert_eq!(pending(&deployment), Some(("deploy", "apr_2")));
        assert_eq!(pending(&json!({ "stages": [plain] })), None);
        assert_eq!(pending(&json!(null)), None);
    }
}
