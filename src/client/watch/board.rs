//! The last known state of the environments: one row each, by pipeline.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// One pipeline with its environments, in the server's order.
#[derive(Debug, Clone)]
pub struct PipelineRows {
    pub id: String,
    pub name: String,
    /// Who stopped it and why, in words; `None` while it runs.
    pub stopped: Option<String>,
    pub rows: Vec<Row>,
}

/// One environment.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub env_name: String,
    pub pipeline_id: String,
    pub lock_status: String,
    pub lock: Option<Lock>,
    #[serde(default)]
    pub queue_length: u64,
    pub disabled_reason: Option<String>,
    /// The deployment that runs or waits for an approval.
    pub current_deployment: Option<Deployment>,
    /// The last deployment that ended.
    pub last_deployment: Option<Deployment>,
    /// The server's record, for `--json`.
    #[serde(skip)]
    pub record: Value,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lock {
    pub session_id: String,
    pub user: User,
    pub context: Option<String>,
    #[serde(deserialize_with = "moment")]
    pub claimed_at: Option<Timestamp>,
    #[serde(deserialize_with = "moment")]
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct User {
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    pub commit_id: String,
    pub status: String,
    pub stage: Option<String>,
    #[serde(default)]
    pub stages_done: u64,
    #[serde(default)]
    pub stages_total: u64,
}

/// A time of the server. An unreadable one becomes `None` instead of an error: a board with a gap is better than none.
fn moment<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(source)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

impl Row {
    pub fn read(record: &Value) -> Option<Self> {
        let mut row = Self::deserialize(record).ok()?;
        row.record = record.clone();
        Some(row)
    }

    pub fn is_free(&self) -> bool {
        self.lock_status == "unlocked"
    }

    /// The holder, in words.
    pub fn holding(&self) -> String {
        match (&self.lock, self.lock_status.as_str()) {
            (Some(lock), _) => {
                let context = lock.context.as_deref().filter(|context| !context.is_empty());
                format!("held by {}{}", lock.user.name, context.map(|said| format!(" ({said})")).unwrap_or_default())
            }
            (None, "unlocked") => "free".to_owned(),
            (None, status) => match &self.disabled_reason {
                Some(reason) => format!("{status}: {reason}"),
                None => status.to_owned(),
            },
        }
    }

    /// The running deployment, or else the last one, in words; empty if there was none.
    pub fn deploying(&self) -> String {
        if let Some(current) = &self.current_deployment {
            let commit = short(&current.commit_id);
            let stage = current.stage.as_deref().unwrap_or_default();
            return match current.status.as_str() {
                "awaiting_approval" => format!("{commit} {stage} needs approval"),
                "running" if current.stages_total > 0 => {
                    let at = (current.stages_done + 1).min(current.stages_total);
                    format!("{commit} {stage} {at}/{}", current.stages_total)
                }
                status => format!("{commit} {status}"),
            };
        }
        let last = self.last_deployment.as_ref();
        last.map(|last| format!("{} {}", short(&last.commit_id), last.status)).unwrap_or_default()
    }

    /// The difference from an earlier state of the same environment, or the whole state when it is first shown. A
    /// heartbeat only moves the expiry, which is not reported.
    fn change_since(&self, before: Option<&Row>) -> Option<Change> {
        let holder = |row: &Row| (row.lock.as_ref().map(|lock| lock.session_id.clone()), row.lock_status.clone());
        let mut words = Vec::new();
        if before.is_none_or(|before| holder(before) != holder(self)) {
            words.push(self.holding());
        }
        if self.queue_length != before.map_or(0, |before| before.queue_length) {
            words.push(format!("{} waiting", self.queue_length));
        }
        if before.is_none_or(|before| before.deploying() != self.deploying()) {
            words.push(self.deploying());
        }
        words.retain(|part| !part.is_empty());
        let change = || Change { place: self.place(), words: words.join(", "), record: self.record.clone() };
        (!words.is_empty()).then(change)
    }

    fn deleted(&self) -> Change {
        let record = json!({ "envName": self.env_name, "pipelineId": self.pipeline_id, "deleted": true });
        Change { place: self.place(), words: "deleted".to_owned(), record }
    }

    fn place(&self) -> String {
        format!("{}/{}", self.pipeline_id, self.env_name)
    }
}

/// An environment whose visible state has changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Pipeline and environment.
    pub place: String,
    pub words: String,
    /// For `--json`: the environment as the server shows it.
    pub record: Value,
}

/// All environments that are watched.
#[derive(Debug, Default)]
pub struct Board {
    pub pipelines: Vec<PipelineRows>,
}

impl Board {
    /// Replaces the state by a newer one, and returns the differences. A new environment is reported with its whole
    /// state.
    pub fn take(&mut self, pipelines: Vec<PipelineRows>) -> Vec<Change> {
        let mut changes = Vec::new();
        for pipeline in &pipelines {
            let before = self.pipelines.iter().find(|known| known.id == pipeline.id);
            if before.is_some_and(|before| before.stopped != pipeline.stopped) {
                let words = pipeline.stopped.clone().unwrap_or_else(|| "runs again".to_owned());
                let record = json!({ "pipelineId": pipeline.id, "stopped": pipeline.stopped });
                changes.push(Change { place: pipeline.id.clone(), words, record });
            }
            let known = before.map_or(&[][..], |before| &before.rows);
            changes.extend(row_changes(known, &pipeline.rows));
        }
        let gone = self.pipelines.iter().filter(|known| !pipelines.iter().any(|pipeline| pipeline.id == known.id));
        changes.extend(gone.flat_map(|gone| row_changes(&gone.rows, &[])));
        self.pipelines = pipelines;
        changes
    }

    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.pipelines.iter().flat_map(|pipeline| &pipeline.rows)
    }
}

fn row_changes(before: &[Row], now: &[Row]) -> Vec<Change> {
    let known: HashMap<&str, &Row> = before.iter().map(|row| (&*row.env_name, row)).collect();
    let present: HashSet<&str> = now.iter().map(|row| &*row.env_name).collect();
    let changed = now.iter().filter_map(|row| row.change_since(known.get(&*row.env_name).copied()));
    let gone = before.iter().filter(|row| !present.contains(&*row.env_name));
    changed.chain(gone.map(Row::deleted)).collect()
}

/// A commit in its usual short form: hashes are cut, names are not.
fn short(commit: &str) -> &str {
    /// As many digits as git shows.
    const SHOWN: usize = 7;
    /// Shorter texts are not full hashes.
    const HASH_MIN: usize = 20;
    let is_hash = commit.len() >= HASH_MIN && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { &commit[..SHOWN] } else { commit }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn row(name: &str, changes: Value) -> Row {
        let mut record = json!({
            "envName": name, "pipelineId": "web", "lockStatus": "unlocked", "lock": null, "queueLength": 0,
            "disabledReason": null, "currentDeployment": null, "lastDeployment": null, "labels": {},
        });
        record.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        Row::read(&record).unwrap()
    }

    fn held(until: &str) -> Value {
        json!({ "lockStatus": "locked", "lock": {
            "sessionId": "ses_1", "user": { "userId": "usr_1", "name": "ana" }, "commitId": null, "context": "PR 412",
            "claimedAt": "2026-11-15T09:30:00.123Z", "expiresAt": until, "fencingToken": 1 } })
    }

    fn told(board: &mut Board, rows: Vec<Row>) -> Vec<String> {
        let web = PipelineRows { id: "web".into(), name: "Web shop".into(), stopped: None, rows };
        board.take(vec![web]).into_iter().map(|change| format!("{}: {}", change.place, change.words)).collect()
    }

    #[test]
    fn each_change_of_an_environment_is_told_once() {
        let mut board = Board::default();
        let first = vec![row("review-1", json!({})), row("review-2", held("2026-11-15T10:30:00Z"))];
        assert_eq!(told(&mut board, first.clone()), ["web/review-1: free", "web/review-2: held by ana (PR 412)"]);
        assert_eq!(told(&mut board, first), [""; 0]);
        let later = vec![row("review-1", held("2026-11-15T10:31:00Z")), row("review-2", json!({ "queueLength": 0 }))];
        assert_eq!(told(&mut board, later), ["web/review-1: held by ana (PR 412)", "web/review-2: free"]);
        assert_eq!(told(&mut board, Vec::new()), ["web/review-1: deleted", "web/review-2: deleted"]);
    }

    #[test]
    fn a_heartbeat_is_no_change() {
        let mut board = Board::default();
        told(&mut board, vec![row("review-1", held("2026-11-15T10:30:00Z"))]);
        assert_eq!(told(&mut board, vec![row("review-1", held("2026-11-15T10:31:00Z"))]), [""; 0]);
    }

    #[test]
    fn a_deployment_is_told_by_its_stages_and_its_end() {
        let running = json!({ "currentDeployment": {
            "deploymentId": "dep_1", "commitId": "c0ffee1c0ffee1c0ffee1c0ffee1c0ffee1c0ffe", "status": "running",
            "stage": "build", "stagesDone": 0, "stagesTotal": 4 } });
        let asking = json!({ "currentDeployment": {
            "deploymentId": "dep_1", "commitId": "main", "status": "awaiting_approval", "stage": "deploy",
            "stagesDone": 2, "stagesTotal": 4 } });
        let done = json!({ "lastDeployment": {
            "deploymentId": "dep_1", "commitId": "main", "status": "failed", "finishedAt": "2026-11-15T09:30:00Z" } });
        assert_eq!(row("review-1", running).deploying(), "c0ffee1 build 1/4");
        assert_eq!(row("review-1", asking).deploying(), "main deploy needs approval");
        assert_eq!(row("review-1", done).deploying(), "main failed");
    }

    #[test]
    fn a_pipeline_that_stops_and_runs_again_is_told() {
        let pipeline = |stopped: Option<&str>| PipelineRows {
            id: "web".into(),
            name: "Web shop".into(),
            stopped: stopped.map(str::to_owned),
            rows: Vec::new(),
        };
        let mut board = Board::default();
        assert!(board.take(vec![pipeline(None)]).is_empty());
        assert_eq!(board.take(vec![pipeline(Some("stopped by mia: freeze"))])[0].words, "stopped by mia: freeze");
        assert_eq!(board.take(vec![pipeline(None)])[0].words, "runs again");
    }
}
