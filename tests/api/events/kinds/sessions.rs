//! Sessions: how they begin, wait and end.

use serde_json::{Value, json};

use super::users::{Expected, Users, system};
use crate::support::{Client, at};

fn sessions(environment: &str) -> String {
    format!("{}/sessions", at(environment))
}

fn session(environment: &str, id: &str) -> String {
    format!("{}/sessions/{id}", at(environment))
}

async fn fresh(client: &Client, environment: &str) {
    client.put(&at(environment), json!({ "labels": { "scene": environment } })).await.created();
}

pub async fn ends(users: &Users) -> Vec<Expected> {
    const HERE: &str = "ends";
    fresh(&users.mia.client, HERE).await;
    let claimed = users.ana.act("POST", &sessions(HERE), json!({ "context": "PR 7" })).await;
    let own = claimed.session();
    let released = users.ana.act("DELETE", &session(HERE, &own), Value::Null).await;
    // Repeating it records no event.
    users.ana.act("DELETE", &session(HERE, &own), Value::Null).await;
    let again = users.ana.act("POST", &sessions(HERE), json!({})).await;
    let taken = again.session();
    let forced = users.ben.act("POST", &format!("{}/force-claim", at(HERE)), json!({})).await;
    let bens = forced.session();
    let ended = users.mia.act("DELETE", &session(HERE, &bens), Value::Null).await;
    let brief = users.ana.act("POST", &sessions(HERE), json!({ "ttlSeconds": 1 })).await;
    let expiring = brief.session();
    users.ana.client.until_session_is(HERE, &expiring, "expired").await;
    vec![
        claimed.by("session.claimed").at("web", HERE).of_session(&own).with(json!({ "fencingToken": 1 })),
        released.by("session.released").at("web", HERE).of_session(&own).with(json!({ "fencingToken": 1 })),
        forced
            .by("session.overridden")
            .at("web", HERE)
            .of_session(&taken)
            .with(json!({ "fencingToken": 2, "overriddenBy": bens })),
        forced.by("session.claimed").at("web", HERE).of_session(&bens).with(json!({ "fencingToken": 3 })),
        ended.by("session.released").at("web", HERE).of_session(&bens).with(json!({ "fencingToken": 3 })),
        system("session.expired")
            .at("web", HERE)
            .of_session(&expiring)
            .with(json!({ "fencingToken": 4, "reason": "ttl" })),
    ]
}

pub async fn queue(users: &Users) -> Vec<Expected> {
    const HERE: &str = "queue";
    fresh(&users.mia.client, HERE).await;
    let first = users.ana.act("POST", &sessions(HERE), json!({})).await;
    let queued = users.ben.act("POST", &sessions(HERE), json!({ "queue": true })).await;
    let waiting = queued.session();
    let leaving = users.mia.act("POST", &sessions(HERE), json!({ "queue": true })).await;
    let left = leaving.session();
    let gone = users.mia.act("DELETE", &session(HERE, &left), Value::Null).await;
    let passed = users.ana.act("DELETE", &session(HERE, &first.session()), Value::Null).await;
    users.ben.client.until_session_is(HERE, &waiting, "active").await;
    vec![
        queued.by("session.queued").at("web", HERE).of_session(&waiting).with(json!({ "position": 1 })),
        leaving.by("session.queued").at("web", HERE).of_session(&left).with(json!({ "position": 2 })),
        gone.by("session.released").at("web", HERE).of_session(&left),
        passed.by("session.released").at("web", HERE).of_session(&first.session()).with(json!({ "fencingToken": 1 })),
        // In his name: he requested it when he began to wait.
        queued.by("session.claimed").at("web", HERE).of_session(&waiting).with(json!({ "fencingToken": 2 })),
    ]
}

pub async fn any(users: &Users) -> Vec<Expected> {
    const HERE: &str = "any";
    const ANY: &str = "/pipelines/web/ephemeral-environments/sessions";
    fresh(&users.mia.client, HERE).await;
    let labels = json!({ "scene": HERE });
    let claimed = users.ana.act("POST", ANY, json!({ "labels": labels })).await;
    let queued = users.ben.act("POST", ANY, json!({ "labels": labels, "queue": true })).await;
    let leaving = users.ana.act("POST", ANY, json!({ "labels": labels, "queue": true })).await;
    let (waiting, left) = (queued.session(), leaving.session());
    let gone = users.ana.act("DELETE", &format!("{ANY}/{left}"), Value::Null).await;
    let passed = users.ana.act("DELETE", &session(HERE, &claimed.session()), Value::Null).await;
    users.ben.client.until_any_session_is(&waiting, "active").await;
    vec![
        claimed.by("session.claimed").at("web", HERE).of_session(&claimed.session()).with(json!({ "fencingToken": 1 })),
        queued.by("session.queued").within("web").of_session(&waiting).with(json!({ "position": 1 })),
        leaving.by("session.queued").within("web").of_session(&left).with(json!({ "position": 2 })),
        gone.by("session.released").within("web").of_session(&left),
        passed.by("session.released").at("web", HERE).of_session(&claimed.session()).with(json!({ "fencingToken": 1 })),
        queued.by("session.claimed").at("web", HERE).of_session(&waiting).with(json!({ "fencingToken": 2 })),
    ]
}
