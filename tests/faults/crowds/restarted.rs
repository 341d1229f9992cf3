//! Many concurrent reads after a restart, while environments are loaded: no place in a queue is ever missing.

use serde_json::json;

use super::sightings::at_once;
use crate::support::{Client, Server, at};

const ENVIRONMENTS: usize = 100;
const RESTARTS: usize = 4;
/// Concurrent reads of each.
const LOOKS: usize = 8;

#[tokio::test]
async fn a_queued_session_is_there_from_the_first_request_after_a_restart() {
    let mut server = Server::start();
    let client = server.admin();
    let mut queued = Vec::new();
    for number in 0..ENVIRONMENTS {
        let environment = format!("restarted-{number}");
        client.put(&at(&environment), json!({})).await.created();
        client.claim(&environment, json!({})).await.created();
        let waits = client.claim(&environment, json!({ "queue": true })).await.has_status(202);
        queued.push((environment, waits.session()));
    }
    for _ in 0..RESTARTS {
        server.kill();
        server.start_again();
        let client = server.admin();
        let looks = queued.iter().flat_map(|queued| (0..LOOKS).map(move |look| (look, queued.clone())));
        let looks = looks.map(|(look, (environment, session))| look_at(client.clone(), look, environment, session));
        at_once(looks.collect::<Vec<_>>().into_iter()).await;
    }
}

/// Each time with another kind of request; the first loads the environment.
async fn look_at(client: Client, look: usize, environment: String, session: String) {
    match look % 4 {
        0 => {
            let refused = client.claim(&environment, json!({})).await.refused(409, "environment_locked");
            assert_eq!(refused.json()["queueLength"], 1, "{refused:?}");
        }
        1 => {
            let found = client.environment(&environment).await.ok();
            assert_eq!(found.data()["queueLength"], 1, "{found:?}");
        }
        2 => {
            let queue = client.get(&format!("{}/queue", at(&environment))).await.ok();
            assert_eq!(queue.data()[0]["sessionId"], session, "{queue:?}");
        }
        _ => {
            let found = client.session(&environment, &session).await.ok();
            assert_eq!(found.data()["lockStatus"], "queued", "{found:?}");
        }
    }
}
