//! Many environments that deploy concurrently.

use std::collections::BTreeMap;

use serde_json::json;

use crate::site::{Site, stage};
use crate::support::at;

const ENVIRONMENTS: usize = 200;
const DEPLOYMENTS: usize = 3;

#[tokio::test]
async fn two_hundred_environments_deploy_at_once_and_none_of_them_twice_at_a_time() {
    let script = "echo $LOCKKEEPER_ENVIRONMENT $LOCKKEEPER_COMMIT begin >> $TRACE; \
                  echo $LOCKKEEPER_ENVIRONMENT $LOCKKEEPER_COMMIT end >> $TRACE";
    let site = Site::with(json!([stage("only", script)])).await;
    let work = (0..ENVIRONMENTS).map(|number| {
        let admin = site.admin.clone();
        tokio::spawn(async move {
            let name = format!("many-{number}");
            admin.put(&at(&name), json!({})).await.created();
            let session = admin.claim(&name, json!({})).await.created().session();
            let mut last = String::new();
            for nth in 0..DEPLOYMENTS {
                let deployed = admin.deploy(&name, &session, json!({ "commitId": format!("c{nth}") })).await;
                last = crate::site::id(&deployed.has_status(202));
            }
            admin.until(&format!("/deployments/{last}"), crate::site::is_finished).await;
            let session = admin.session(&name, &session).await.data();
            for (nth, deployment) in session["deployments"].as_array().unwrap().iter().enumerate() {
                assert_eq!(
                    (&deployment["status"], &deployment["commitId"]),
                    (&json!("succeeded"), &json!(format!("c{nth}")))
                );
            }
        })
    });
    for done in work.collect::<Vec<_>>() {
        done.await.unwrap();
    }
    // The events of each deployment, in the order of writing.
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in site.traced() {
        let (environment, rest) = line.split_once(' ').unwrap();
        seen.entry(environment.to_owned()).or_default().push(rest.to_owned());
    }
    assert_eq!(seen.len(), ENVIRONMENTS);
    let expected: Vec<_> = (0..DEPLOYMENTS).flat_map(|nth| [format!("c{nth} begin"), format!("c{nth} end")]).collect();
    for (environment, lines) in seen {
        assert_eq!(lines, expected, "{environment}");
    }
}
