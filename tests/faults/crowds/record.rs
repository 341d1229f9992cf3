//! The actions of a crowd's jobs and the answers they received, in the order on the clients' side.

use std::fmt::Write;
use std::sync::{Mutex, MutexGuard};

use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;

/// Its index in the record; the context of its claim contains it.
pub type JobId = usize;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub environment: String,
    pub session: String,
    pub token: u64,
}

impl Grant {
    /// From a session that has its lock.
    pub fn of(session: &Value) -> Self {
        let text = |field: &str| session[field].as_str().unwrap_or_else(|| panic!("no {field}: {session}")).to_owned();
        let token = session["fencingToken"].as_u64().unwrap_or_else(|| panic!("no token: {session}"));
        Self { environment: text("envName"), session: text("sessionId"), token }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    /// Its claim is sent next, for the first time.
    Claims,
    /// Its claim is known to be in the queue.
    Queued,
    /// It has received the lock.
    Holds(Grant),
    /// Its release is sent next, for the first time.
    Releases,
    /// It received an unexpected answer.
    Refused(String),
    /// It has just closed its connection, and records nothing more.
    CutOff(Timestamp),
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub job: JobId,
    pub moment: Moment,
}

/// The planned end of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Served,
    /// Disconnects at some moment; it may have had its lock by then.
    CutOff,
    /// Disconnects, and is seen to have left the queue while no lock was granted.
    LeftUnserved,
}

#[derive(Debug, Clone)]
pub struct Job {
    pub request: String,
    pub fate: Fate,
}

/// One session of an environment's history.
#[derive(Debug, Clone)]
pub struct Past {
    pub job: JobId,
    pub token: u64,
    pub session: String,
    pub claimed_at: Timestamp,
    pub status: String,
    pub reason: Option<String>,
}

#[derive(Debug, Clone)]
pub struct History {
    pub environment: String,
    /// Oldest first.
    pub sessions: Vec<Past>,
}

/// All records at the end.
#[derive(Debug, Clone, Default)]
pub struct Story {
    pub jobs: Vec<Job>,
    pub entries: Vec<Entry>,
    pub histories: Vec<History>,
}

impl Story {
    /// The requests, actions and answers of these jobs, and their sessions on the server.
    pub fn of_jobs(&self, jobs: &[JobId]) -> String {
        let mut text = String::new();
        for job in jobs {
            let request = self.jobs.get(*job).map_or("nobody made it", |job| &job.request);
            writeln!(text, "  {}: {request}", context_of(*job)).unwrap();
        }
        for (place, entry) in self.entries.iter().enumerate().filter(|(_, entry)| jobs.contains(&entry.job)) {
            writeln!(text, "  @{place} {} {:?}", context_of(entry.job), entry.moment).unwrap();
        }
        for History { environment, sessions } in &self.histories {
            for past in sessions.iter().filter(|past| jobs.contains(&past.job)) {
                writeln!(text, "  in the history of {environment}: {past:?}").unwrap();
            }
        }
        text
    }
}

pub fn context_of(job: JobId) -> String {
    format!("job-{job}")
}

pub fn job_of(context: &str) -> Option<JobId> {
    context.strip_prefix("job-")?.parse().ok()
}

/// The story while it is being recorded.
#[derive(Default)]
pub struct Record {
    story: Mutex<Story>,
    releases: watch::Sender<usize>,
}

impl Record {
    /// Adds a job; `request` creates its request from its id.
    pub fn add(&self, fate: Fate, request: impl FnOnce(JobId) -> String) -> JobId {
        let mut story = self.story();
        let id = story.jobs.len();
        story.jobs.push(Job { request: request(id), fate });
        id
    }

    pub fn note(&self, job: JobId, moment: Moment) {
        let releases = moment == Moment::Releases;
        self.story().entries.push(Entry { job, moment });
        if releases {
            self.releases.send_modify(|count| *count += 1);
        }
    }

    /// Waits until there have been this many releases.
    pub async fn until_releases(&self, wanted: usize) {
        self.releases.subscribe().wait_for(|count| *count >= wanted).await.unwrap();
    }

    pub fn jobs(&self) -> usize {
        self.story().jobs.len()
    }

    pub fn told(&self, histories: Vec<History>) -> Story {
        Story { histories, ..self.story().clone() }
    }

    fn story(&self) -> MutexGuard<'_, Story> {
        self.story.lock().unwrap()
    }
}
