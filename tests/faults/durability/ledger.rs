//! All effects that clients were told of, and the comparison with the state of a server after it was killed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;

use crate::support::{Client, at};

/// The answers that clients received about the environments, and their unanswered requests.
pub struct Ledger {
    environments: Vec<Environment>,
    /// Answers that reported an effect.
    pub acknowledged: usize,
}

#[derive(Default)]
struct Environment {
    /// By fencing token.
    sessions: BTreeMap<u64, Session>,
    unanswered: Unanswered,
    /// The lowest token with new information since the last comparison.
    touched_from: Option<u64>,
}

/// The facts about a session that clients received.
#[derive(Debug, Clone)]
struct Session {
    id: String,
    user: String,
    ended: Option<Ended>,
    deployments: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Ended {
    status: String,
    by_session: Option<String>,
}

/// Requests without an answer, which may have taken effect.
#[derive(Default)]
struct Unanswered {
    grants: usize,
    releases: HashSet<String>,
}

/// A session that a client may use.
pub struct Holder {
    pub session: String,
    pub user: String,
}

impl Ledger {
    pub fn new(environments: usize) -> Self {
        Self { environments: (0..environments).map(|_| Environment::default()).collect(), acknowledged: 0 }
    }

    pub fn name(environment: usize) -> String {
        format!("env-{environment}")
    }

    /// The highest token that any client received.
    pub fn newest(&self, environment: usize) -> u64 {
        let newest = self.environments[environment].sessions.last_key_value();
        newest.map_or(0, |(token, _)| *token)
    }

    /// The newest session, if no client received its end.
    pub fn holder(&self, environment: usize) -> Option<Holder> {
        let (_, session) = self.environments[environment].sessions.last_key_value()?;
        session.ended.is_none().then(|| Holder { session: session.id.clone(), user: session.user.clone() })
    }

    /// A new session, which must have a higher token than all that were known when it was requested.
    pub fn granted(&mut self, environment: usize, session: &Value, newest_before: u64) {
        self.acknowledged += 1;
        let token = session["fencingToken"].as_u64().unwrap();
        assert!(token > newest_before, "token {token} after {newest_before} in {}", Self::name(environment));
        self.shown(environment, session);
        let overrode = &session["overrode"];
        if !overrode.is_null() {
            assert_eq!(overrode["fencingToken"], token - 1);
            let ended = Ended { status: "overridden".to_owned(), by_session: Some(text(&session["sessionId"])) };
            self.learn(environment, overrode).end(ended);
        }
    }

    /// A release or a deployment that was answered with success.
    pub fn acknowledge(&mut self) {
        self.acknowledged += 1;
    }

    /// A session as an answer showed it: a holder, or a complete one with its end and its deployments.
    pub fn shown(&mut self, environment: usize, session: &Value) {
        let known = self.learn(environment, session);
        for deployment in session["deployments"].as_array().into_iter().flatten() {
            known.deployments.insert(text(&deployment["deploymentId"]));
        }
        match session["lockStatus"].as_str() {
            None | Some("active") => {}
            Some(status) => known.end(Ended {
                status: status.to_owned(),
                by_session: session["endedBy"]["sessionId"].as_str().map(str::to_owned),
            }),
        }
    }

    pub fn deployed(&mut self, environment: usize, deployment: &Value) {
        let token = deployment["fencingToken"].as_u64().unwrap();
        let id = text(&deployment["deploymentId"]);
        let environment = &mut self.environments[environment];
        environment.touch(token);
        let session = environment.sessions.get_mut(&token).unwrap();
        assert_eq!(session.id, text(&deployment["sessionId"]));
        session.deployments.insert(id);
    }

    pub fn grant_unanswered(&mut self, environment: usize) {
        self.environments[environment].unanswered.grants += 1;
    }

    pub fn release_unanswered(&mut self, environment: usize, session: &str) {
        let known = &mut self.environments[environment];
        // It may have taken effect: the next session's grant may have arrived while the answer to this request was
        // lost.
        if let Some(token) = known.sessions.iter().rev().find(|(_, held)| held.id == session).map(|(token, _)| *token) {
            known.touch(token);
        }
        known.unanswered.releases.insert(session.to_owned());
    }

    fn learn(&mut self, environment: usize, session: &Value) -> &mut Session {
        let (token, id) = (session["fencingToken"].as_u64().unwrap(), text(&session["sessionId"]));
        let known = &mut self.environments[environment];
        known.touch(token);
        let known = known.sessions.entry(token).or_insert_with(|| Session {
            id: id.clone(),
            user: text(&session["user"]["name"]),
            ended: None,
            deployments: BTreeSet::new(),
        });
        assert_eq!(known.id, id, "token {token} of {} belongs to two sessions", Self::name(environment));
        known
    }

    /// Compares everything learned since the last comparison with the server's current state, and adds the effects of
    /// requests without an answer.
    pub async fn compare(&mut self, client: &Client) {
        for number in 0..self.environments.len() {
            let from = self.environments[number].touched_from.unwrap_or(self.newest(number));
            self.compare_from(client, number, from.max(1)).await;
        }
    }

    /// The same, from the first session on.
    pub async fn compare_everything(&mut self, client: &Client) {
        for number in 0..self.environments.len() {
            self.compare_from(client, number, 1).await;
        }
    }

    async fn compare_from(&mut self, client: &Client, number: usize, from: u64) {
        let name = Self::name(number);
        let history = history(client, &name, from).await;
        let known = &mut self.environments[number];
        let unanswered = std::mem::take(&mut known.unanswered);

        let mut later: Option<&Value> = None;
        let mut ids = HashMap::new();
        for entry in &history {
            let token = entry["fencingToken"].as_u64().unwrap();
            if let Some(later) = later {
                let above = later["fencingToken"].as_u64().unwrap();
                assert_eq!(token + 1, above, "tokens of {name} are not contiguous");
            }
            assert_eq!(ids.insert(text(&entry["sessionId"]), token), None, "a session stands twice");
            check_end(entry, later, &name);
            later = Some(entry);
        }
        let newest = history.first().map_or(0, |entry| entry["fencingToken"].as_u64().unwrap());
        let newest_known = known.sessions.last_key_value().map_or(0, |(token, _)| *token);
        assert!(newest >= newest_known, "{name} forgot the session with token {newest_known}");
        let surplus = (newest - newest_known) as usize;
        assert!(surplus <= unanswered.grants, "{name} granted {surplus} sessions that nobody asked for");

        for (token, session) in known.sessions.range(from..) {
            let entry = &history[(newest - token) as usize];
            session.assert_kept(entry, &name, *token);
            let status = entry["lockStatus"].as_str().unwrap();
            let asked_for = session.ended.is_some() || unanswered.releases.contains(&session.id);
            assert!(status != "released" || asked_for, "nobody released token {token} of {name}");
        }
        check_holder(&client.environment(&name).await.ok().data(), history.first(), &name);
        for entry in history.iter().take(surplus + 1) {
            let id = text(&entry["sessionId"]);
            let alone = client.session(&name, &id).await.ok().data();
            assert_eq!(alone, *entry, "a session is not the same alone and in the history");
        }
        for entry in &history {
            self.shown(number, entry);
        }
        self.environments[number].touched_from = None;
    }
}

impl Environment {
    fn touch(&mut self, token: u64) {
        self.touched_from = Some(self.touched_from.map_or(token, |from| from.min(token)));
    }
}

impl Session {
    fn end(&mut self, ended: Ended) {
        if let Some(known) = &self.ended {
            assert_eq!(*known, ended, "the session {} ended in two ways", self.id);
        }
        self.ended = Some(ended);
    }

    fn assert_kept(&self, entry: &Value, name: &str, token: u64) {
        assert_eq!(text(&entry["sessionId"]), self.id, "token {token} of {name} changed hands");
        assert_eq!(text(&entry["user"]["name"]), self.user);
        if let Some(ended) = &self.ended {
            let found = Ended {
                status: text(&entry["lockStatus"]),
                by_session: entry["endedBy"]["sessionId"].as_str().map(str::to_owned),
            };
            assert_eq!(found, *ended, "token {token} of {name} did not stay ended as it was");
        }
        let listed: BTreeSet<_> = entry["deployments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|deployment| text(&deployment["deploymentId"]))
            .collect();
        assert!(
            entry["deploymentCount"].as_u64().unwrap() > listed.len() as u64 || self.deployments.is_subset(&listed),
            "token {token} of {name} lost a deployment: {:?} of {listed:?}",
            self.deployments
        );
    }
}

/// Only the newest session is active, and an overridden one was overridden by the next.
fn check_end(entry: &Value, later: Option<&Value>, name: &str) {
    match (entry["lockStatus"].as_str().unwrap(), later) {
        ("active", None) | ("released", _) => {}
        ("overridden", Some(later)) => assert_eq!(entry["endedBy"]["sessionId"], later["sessionId"]),
        (status, _) => panic!("in {name} a session is {status} that cannot be: {entry}"),
    }
}

fn check_holder(environment: &Value, newest: Option<&Value>, name: &str) {
    let active = newest.filter(|entry| entry["lockStatus"] == "active");
    let (lock, status) = (&environment["lock"], &environment["lockStatus"]);
    match active {
        Some(entry) => assert_eq!(
            (&lock["sessionId"], &lock["fencingToken"], status.as_str()),
            (&entry["sessionId"], &entry["fencingToken"], Some("locked")),
            "{name}"
        ),
        None => assert_eq!((lock.is_null(), status.as_str()), (true, Some("unlocked")), "{name}"),
    }
}

/// The sessions of an environment with `from` and higher tokens, newest first.
async fn history(client: &Client, name: &str, from: u64) -> Vec<Value> {
    const PAGE: usize = 100;
    let mut entries: Vec<Value> = Vec::new();
    for page in 1.. {
        let path = format!("{}/history?page={page}&limit={PAGE}", at(name));
        let answer = client.get(&path).await.ok();
        let found = answer.data().as_array().unwrap().clone();
        let is_last = found.len() < PAGE;
        entries.extend(found);
        let lowest = entries.last().map_or(0, |entry| entry["fencingToken"].as_u64().unwrap());
        if is_last || lowest <= from {
            break;
        }
    }
    entries.retain(|entry| entry["fencingToken"].as_u64().unwrap() >= from);
    entries
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}
