//! Rules that hold for every crowd, checked on its story. A violation is reported with the jobs that show it.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::record::{Entry, Fate, Grant, History, JobId, Moment, Past, Story};

type Check = fn(&Story) -> Result<(), String>;

const CHECKS: [Check; 6] = [
    everybody_is_served_once,
    one_holder_at_a_time,
    tokens_rise_by_one,
    the_history_is_what_the_clients_saw,
    nobody_overtakes,
    nobody_comes_back_from_the_dead,
];

/// Succeeds if no rule is violated, otherwise reports all violations.
pub fn check(story: &Story) {
    let wrong: Vec<_> = CHECKS.iter().filter_map(|check| check(story).err()).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Every job that was not disconnected gets one lock and releases it, and none of its requests is refused.
pub fn everybody_is_served_once(story: &Story) -> Result<(), String> {
    let mut seen = vec![(0, 0, 0); story.jobs.len()];
    for Entry { job, moment } in &story.entries {
        let (grants, releases, refusals) = &mut seen[*job];
        match moment {
            Moment::Holds(_) => *grants += 1,
            Moment::Releases => *releases += 1,
            Moment::Refused(_) => *refusals += 1,
            Moment::Claims | Moment::Queued | Moment::CutOff(_) => {}
        }
    }
    for (job, seen) in seen.into_iter().enumerate() {
        let right = match story.jobs[job].fate {
            Fate::Served => seen == (1, 1, 0),
            Fate::CutOff => matches!(seen, (0 | 1, 0, 0)),
            Fate::LeftUnserved => seen == (0, 0, 0),
        };
        if !right {
            let (grants, releases, refusals) = seen;
            let what = format!("{grants} grants, {releases} releases and {refusals} refusals of one job");
            return Err(violation(story, &what, &[job]));
        }
    }
    Ok(())
}

/// No job receives a lock while another job has it and has not begun to release it.
pub fn one_holder_at_a_time(story: &Story) -> Result<(), String> {
    let mut holders: HashMap<&str, JobId> = HashMap::new();
    for Entry { job, moment } in &story.entries {
        match moment {
            Moment::Holds(grant) => {
                if let Some(other) = holders.insert(&grant.environment, *job) {
                    let what = format!("{} has two holders at once", grant.environment);
                    return Err(violation(story, &what, &[other, *job]));
                }
            }
            Moment::Releases | Moment::CutOff(_) => holders.retain(|_, holder| holder != job),
            Moment::Claims | Moment::Queued | Moment::Refused(_) => {}
        }
    }
    Ok(())
}

/// Each grant of an environment has the next token, from 1, also as the clients saw them.
pub fn tokens_rise_by_one(story: &Story) -> Result<(), String> {
    for History { environment, sessions } in &story.histories {
        let mut before: Option<&Past> = None;
        for past in sessions {
            if past.token != before.map_or(0, |before| before.token) + 1 {
                let what = format!("in the history of {environment}, a token does not follow on the one before it");
                let jobs: Vec<_> = before.iter().map(|before| before.job).chain([past.job]).collect();
                return Err(violation(story, &what, &jobs));
            }
            before = Some(past);
        }
    }
    let mut newest: HashMap<&str, (JobId, u64)> = HashMap::new();
    for (job, grant) in grants(story) {
        let before = newest.insert(&grant.environment, (job, grant.token));
        if let Some((other, token)) = before.filter(|(_, token)| *token >= grant.token) {
            let what = format!("{} was held under token {token} before {}", grant.environment, grant.token);
            return Err(violation(story, &what, &[other, job]));
        }
    }
    Ok(())
}

/// Each job has at most one session in all histories together, the one it received; and there are no others.
pub fn the_history_is_what_the_clients_saw(story: &Story) -> Result<(), String> {
    let mut told: HashMap<JobId, &Grant> = grants(story).collect();
    let mut known: BTreeMap<JobId, &str> = BTreeMap::new();
    for History { environment, sessions } in &story.histories {
        for past in sessions {
            let Some(job) = story.jobs.get(past.job) else {
                return Err(violation(story, "a session belongs to no job", &[past.job]));
            };
            if let Some(other) = known.insert(past.job, environment) {
                let what = format!("one job had two sessions, in {other} and in {environment}");
                return Err(violation(story, &what, &[past.job]));
            }
            match told.remove(&past.job) {
                Some(Grant { environment: of, session, token })
                    if (of, session, *token) == (environment, &past.session, past.token) => {}
                None if job.fate == Fate::CutOff => {}
                Some(_) | None => {
                    return Err(violation(story, "the history shows what nobody was told", &[past.job]));
                }
            }
            if job.fate == Fate::Served && past.status != "released" {
                return Err(violation(story, "a session did not end by its release", &[past.job]));
            }
        }
    }
    let mut forgotten: Vec<_> = told.into_keys().collect();
    forgotten.sort_unstable();
    match forgotten.first() {
        Some(job) => Err(violation(story, "a session that a client had is in no history", &[*job])),
        None => Ok(()),
    }
}

/// Of two jobs that got the same environment, one that was known to wait before the other's request was served first.
pub fn nobody_overtakes(story: &Story) -> Result<(), String> {
    let (mut asked, mut queued) = (HashMap::new(), HashMap::new());
    for (place, Entry { job, moment }) in story.entries.iter().enumerate() {
        match moment {
            Moment::Claims => _ = asked.insert(*job, place),
            Moment::Queued => _ = queued.insert(*job, place),
            Moment::Holds(_) | Moment::Releases | Moment::Refused(_) | Moment::CutOff(_) => {}
        }
    }
    for History { environment, sessions } in &story.histories {
        // Among the jobs served later, the first known to wait.
        let mut patient: Option<(usize, JobId)> = None;
        for past in sessions.iter().rev() {
            if let (Some((waited, job)), Some(asked)) = (patient, asked.get(&past.job))
                && waited < *asked
            {
                let what = format!("in {environment}, one was served before another that waited before it asked");
                return Err(violation(story, &what, &[past.job, job]));
            }
            let waits = queued.get(&past.job).map(|place| (*place, past.job));
            patient = patient.into_iter().chain(waits).min();
        }
    }
    Ok(())
}

/// A disconnected job has no lock, or had one that was taken back; and none if it was seen to have left.
pub fn nobody_comes_back_from_the_dead(story: &Story) -> Result<(), String> {
    let told: HashMap<JobId, &Grant> = grants(story).collect();
    let gone: HashMap<JobId, Timestamp> = story
        .entries
        .iter()
        .filter_map(|entry| match entry.moment {
            Moment::CutOff(at) => Some((entry.job, at)),
            _ => None,
        })
        .collect();
    for past in story.histories.iter().flat_map(|history| &history.sessions) {
        let Some(job) = story.jobs.get(past.job) else { continue };
        let right = match (job.fate, past.reason.as_deref()) {
            (Fate::Served, _) => true,
            // It received the grant, or its answer was being sent when it disconnected.
            (Fate::CutOff, Some("ttl")) => gone.get(&past.job).is_some_and(|gone| past.claimed_at <= *gone),
            // The grant was undeliverable, so it cannot have been received.
            (Fate::CutOff, Some("vanished")) => !told.contains_key(&past.job),
            (Fate::CutOff, _) | (Fate::LeftUnserved, _) => false,
        };
        if !right {
            return Err(violation(story, "one that was cut off has a session that it must not have", &[past.job]));
        }
    }
    Ok(())
}

fn grants(story: &Story) -> impl Iterator<Item = (JobId, &Grant)> {
    story.entries.iter().filter_map(|entry| match &entry.moment {
        Moment::Holds(grant) => Some((entry.job, grant)),
        Moment::Claims | Moment::Queued | Moment::Releases | Moment::Refused(_) | Moment::CutOff(_) => None,
    })
}

fn violation(story: &Story, what: &str, jobs: &[JobId]) -> String {
    format!("{what}:\n{}", story.of_jobs(jobs))
}
