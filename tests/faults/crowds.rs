//! Many clients: one lock has one holder, tokens rise, and no answer shows an outdated state.

mod checks;
mod connection;
mod cut_off;
mod fleet;
mod job;
mod killed;
mod planted;
mod record;
mod restarted;
mod sightings;
mod waiting;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Client, Server, Setup, at};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use sightings::{Sightings, actors_in_memory, at_once, until_actors};

const LEAVES_SOON: &str =
    "[storage]\nlog_segment_mb = 4\nmin_free_mb = 0\nhistory_retention = 100000\n[environments]\nidle_seconds = 1\n";

#[tokio::test]
async fn of_many_who_claim_at_once_exactly_one_gets_the_lock() {
    const CROWD: usize = 200;
    const ROUNDS: u64 = 5;
    let server = Server::start();
    let clients = [server.as_user("ana").await, server.as_user("ben").await];
    for round in 1..=ROUNDS {
        let answers = at_once((0..CROWD).map(|place| {
            let client = clients[place % clients.len()].clone();
            async move { client.claim("review-1", json!({ "context": "crowd" })).await }
        }))
        .await;
        let (winners, losers): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 201);
        assert_eq!((winners.len(), losers.len()), (1, CROWD - 1));
        let holder = winners[0].data();
        assert_eq!(holder["fencingToken"], round);
        for refused in losers {
            assert_eq!(refused.problem(), (409, "environment_locked".to_owned()));
            assert_eq!(refused.json()["holder"]["sessionId"], holder["sessionId"]);
            assert_eq!(refused.json()["holder"]["fencingToken"], round);
        }
        let session = winners[0].session();
        server.admin().release("review-1", &session).await.ok();
    }
}

#[tokio::test]
async fn force_claims_at_once_form_one_chain_without_a_gap() {
    const CROWD: u64 = 50;
    let server = Server::start();
    let clients = [server.as_user("ana").await, server.as_user("ben").await];
    let answers = at_once((0..CROWD).map(|place| {
        let client = clients[place as usize % clients.len()].clone();
        async move { client.force_claim("review-1", json!({})).await.created().data() }
    }))
    .await;
    let mut chain = answers;
    chain.sort_by_key(token);
    let tokens: Vec<_> = chain.iter().map(token).collect();
    assert_eq!(tokens, (1..=CROWD).collect::<Vec<_>>());
    assert!(chain[0]["overrode"].is_null());
    for pair in chain.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let overrode = &after["overrode"];
        assert_eq!(
            (&overrode["sessionId"], &overrode["fencingToken"], &overrode["user"]),
            (&before["sessionId"], &before["fencingToken"], &before["user"])
        );
        let ended = clients[0].session("review-1", id(before)).await.ok().data();
        assert_eq!((ended["lockStatus"].as_str(), &ended["overridden"]), (Some("overridden"), &json!(true)));
        assert_eq!(
            (&ended["endedBy"]["sessionId"], &ended["endedBy"]["userId"]),
            (&after["sessionId"], &after["user"]["userId"])
        );
    }
    let last = chain.last().unwrap();
    let history = clients[0].get(&format!("{}/history?limit=100", at("review-1"))).await.ok();
    let sessions = history.data().as_array().unwrap().clone();
    assert_eq!(sessions.len() as u64, CROWD);
    let active: Vec<_> = sessions.iter().filter(|s| s["lockStatus"] == "active").map(id).collect();
    assert_eq!(active, [id(last)]);
    let environment = clients[0].environment("review-1").await.ok().data();
    assert_eq!(environment["lock"]["sessionId"], last["sessionId"]);
}

#[tokio::test]
async fn readers_are_never_shown_an_older_state_than_somebody_was_told_before() {
    const ENVIRONMENTS: usize = 12;
    const WRITERS: usize = 12;
    const TURNS: usize = 60;
    const READERS: usize = 8;
    let server = Server::start();
    let client = server.admin();
    for number in 0..ENVIRONMENTS {
        client.put(&at(&name(number)), json!({})).await.created();
    }
    let sightings = Arc::new(Mutex::new(Sightings::new(ENVIRONMENTS)));
    let writing = Arc::new(());
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let (client, sightings, writing) = (client.clone(), sightings.clone(), Arc::downgrade(&writing));
            tokio::spawn(async move {
                let mut looks = 0_usize;
                while writing.strong_count() > 0 {
                    look(&client, &sightings, reader, looks, ENVIRONMENTS).await;
                    looks += 1;
                }
                looks
            })
        })
        .collect();
    at_once((0..WRITERS).map(|writer| {
        let (client, sightings, writing) = (client.clone(), sightings.clone(), writing.clone());
        async move {
            for turn in 0..TURNS {
                take_turn(&client, &sightings, (writer + turn) % ENVIRONMENTS, turn).await;
            }
            drop(writing);
        }
    }))
    .await;
    drop(writing);
    let mut looks = 0;
    for reader in readers {
        looks += reader.await.unwrap();
    }
    println!("{looks} looks at {} grants", sightings.lock().unwrap().grants());
}

/// A writer's turn: claim and release, or force-claim.
async fn take_turn(client: &Client, sightings: &Mutex<Sightings>, environment: usize, turn: usize) {
    let name = name(environment);
    let claimed =
        if turn % 4 == 3 { client.force_claim(&name, json!({})).await } else { client.claim(&name, json!({})).await };
    let answer = claimed.json();
    if claimed.status != 201 {
        assert_eq!(claimed.problem().1, "environment_locked");
        sightings.lock().unwrap().told_holder(environment, &answer["holder"]);
        return;
    }
    sightings.lock().unwrap().told_holder(environment, &answer["data"]);
    let released = client.release(&name, &claimed.session()).await.ok().data();
    sightings.lock().unwrap().told_ended(environment, &released);
}

/// A reader's request, each time of another kind.
async fn look(client: &Client, sightings: &Mutex<Sightings>, reader: usize, turn: usize, environments: usize) {
    let environment = (reader + turn) % environments;
    let name = name(environment);
    let before = sightings.lock().unwrap().known();
    match turn % 4 {
        0 => {
            let found = client.environment(&name).await.ok().data();
            sightings.lock().unwrap().saw(environment, &found["lock"], &before, "get");
        }
        1 => {
            let path = at("");
            let found = client.get(path.trim_end_matches('/')).await.ok().data();
            for item in found.as_array().unwrap() {
                let number = item["envName"].as_str().unwrap().strip_prefix("crowd-");
                if let Some(number) = number.map(|number| number.parse::<usize>().unwrap()) {
                    sightings.lock().unwrap().saw(number, &item["lock"], &before, "list");
                }
            }
        }
        2 => {
            let found = client.get(&format!("{}/history?limit=1", at(&name))).await.ok().data();
            let newest = &found[0];
            if newest["lockStatus"] == "active" {
                sightings.lock().unwrap().saw(environment, newest, &before, "history");
            } else if !newest.is_null() {
                sightings.lock().unwrap().saw_ended(environment, newest, &before, "history");
            }
        }
        _ => {
            let Some(session) = sightings.lock().unwrap().newest_session(environment) else {
                return;
            };
            // A session that one client received is visible to all.
            let found = client.session(&name, &session).await.ok().data();
            if found["lockStatus"] == "active" {
                sightings.lock().unwrap().saw(environment, &found, &before, "session");
            } else {
                sightings.lock().unwrap().told_ended(environment, &found);
            }
        }
    }
}

#[tokio::test]
async fn an_idle_environment_leaves_memory_and_comes_back_with_everything() {
    const ENVIRONMENTS: usize = 10;
    let server = Setup::default().settings(LEAVES_SOON).start();
    let client = server.admin();
    let mut held = Vec::new();
    for number in 0..ENVIRONMENTS {
        client.put(&at(&name(number)), json!({})).await.created();
        let first = client.claim(&name(number), json!({})).await.created().session();
        client.release(&name(number), &first).await.ok();
        let claimed = client.claim(&name(number), json!({ "commitId": "c0ffee1" })).await.created();
        held.push((name(number), first, claimed.data()));
    }
    until_actors(&client, |count| count > 0).await;
    until_actors(&client, |count| count == 0).await;
    for (name, first, session) in held {
        let lock = client.environment(&name).await.ok().data()["lock"].clone();
        assert_eq!(lock["sessionId"], session["sessionId"]);
        assert_eq!(client.session(&name, id(&session)).await.ok().data(), session);
        assert_eq!(client.session(&name, &first).await.ok().data()["lockStatus"], "released");
        // Reads do not start actors; these requests do.
        let refused = client.claim(&name, json!({})).await;
        assert_eq!(refused.problem(), (409, "environment_locked".to_owned()));
        assert_eq!(refused.json()["holder"]["sessionId"], session["sessionId"]);
        let next = client.force_claim(&name, json!({})).await.created().data();
        assert_eq!((token(&next), &next["overrode"]["sessionId"]), (3, &session["sessionId"]));
    }
}

#[tokio::test]
async fn a_claim_that_meets_an_environment_on_its_way_out_of_memory_is_not_lost() {
    const WORKERS: usize = 8;
    const ENVIRONMENTS_EACH: usize = 200;
    const CLAIMS_EACH: usize = 600;
    // Each environment is idle for about two seconds, and unused ones leave memory after one: many are just being
    // unloaded.
    const PACE: Duration = Duration::from_millis(10);
    let server = Setup::default().settings(LEAVES_SOON).start();
    let client = server.admin();
    at_once((0..WORKERS).map(|worker| {
        let client = client.clone();
        async move {
            let own: Vec<_> = (0..ENVIRONMENTS_EACH).map(|number| name(worker * ENVIRONMENTS_EACH + number)).collect();
            for name in &own {
                client.put(&at(name), json!({})).await.created();
            }
            let mut grants = [0; ENVIRONMENTS_EACH];
            let mut random = SmallRng::seed_from_u64(worker as u64);
            let mut pace = tokio::time::interval(PACE);
            for _ in 0..CLAIMS_EACH {
                pace.tick().await;
                let number = random.random_range(0..ENVIRONMENTS_EACH);
                let name = &own[number];
                let claimed = client.claim(name, json!({})).await.created();
                grants[number] += 1;
                assert_eq!(token(&claimed.data()), grants[number], "{name}");
                let lock = client.environment(name).await.ok().data()["lock"].clone();
                assert_eq!(lock["sessionId"], claimed.data()["sessionId"]);
                let ended = client.release(name, &claimed.session()).await.ok().data();
                assert_eq!(ended["lockStatus"], "released");
            }
        }
    }))
    .await;
    let left = actors_in_memory(&client).await;
    println!(
        "{} claims of {} environments, of which {left} are in memory",
        WORKERS * CLAIMS_EACH,
        WORKERS * ENVIRONMENTS_EACH
    );
    assert!((left as usize) < WORKERS * ENVIRONMENTS_EACH, "none left");
}

fn name(number: usize) -> String {
    format!("crowd-{number}")
}

fn id(session: &Value) -> &str {
    session["sessionId"].as_str().unwrap()
}

fn token(session: &Value) -> u64 {
    session["fencingToken"].as_u64().unwrap()
}

fn from_variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}
