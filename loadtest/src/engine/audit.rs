//! Owns the look at what was left behind: when all clients have stopped, every environment that they used is read, and
//! the newest acknowledged session of each.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::client::Client;
use crate::engine::threads::{Work, work};
use crate::history::{Answer, Record, SessionName};

/// More than this would take longer than the load itself.
const MAX_ENVIRONMENTS: usize = 10_000;
/// Enough to keep the server busy.
const CONNECTIONS: u32 = 16;

/// What is to be read: environments, with the newest session that was acknowledged.
pub fn plan(records: &[Record]) -> Vec<(u32, Option<SessionName>)> {
    let mut newest: HashMap<u32, (u64, Option<&SessionName>)> = HashMap::new();
    for record in records {
        let Some(environment) = record.environment else { continue };
        if newest.len() >= MAX_ENVIRONMENTS && !newest.contains_key(&environment) {
            continue;
        }
        let seen = newest.entry(environment).or_insert((0, None));
        if let Answer::Granted { session, fencing } = &record.answer
            && (seen.1.is_none() || *fencing > seen.0)
        {
            *seen = (*fencing, Some(session));
        }
    }
    let mut plan: Vec<_> = newest.into_iter().map(|(number, (_, session))| (number, session.cloned())).collect();
    plan.sort_unstable_by_key(|(number, _)| *number);
    plan
}

pub fn reads(plan: Vec<(u32, Option<SessionName>)>) -> Work {
    let plan = Arc::new(plan);
    work(move |thread| {
        let plan = plan.clone();
        async move { thread.clients(CONNECTIONS, |client| read_share(client, plan.clone())).await }
    })
}

async fn read_share(mut client: Client, plan: Arc<Vec<(u32, Option<SessionName>)>>) {
    for (environment, session) in plan.iter().skip(client.number as usize).step_by(CONNECTIONS as usize) {
        // What fails is counted as an error, and the checkers see no answer.
        _ = client.read(*environment).await;
        if let Some(session) = session {
            _ = client.read_session(*environment, session.clone()).await;
        }
        // Even when the run was stopped it goes on: these reads are what the report of a stopped run rests on.
        if client.is_hopeless() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Moment, Request};

    fn granted(environment: u32, session: &str, fencing: u64) -> Record {
        Record {
            client: 0,
            environment: Some(environment),
            request: Request::ForceClaim,
            sent: Moment(0),
            ended: Moment(1),
            answer: Answer::Granted { session: SessionName(session.into()), fencing },
        }
    }

    #[test]
    fn the_newest_session_of_each_environment_is_read() {
        let read = Record { answer: Answer::Unknown, ..granted(3, "", 0) };
        let plan = plan(&[granted(2, "b", 8), granted(1, "a", 1), granted(2, "c", 7), read]);
        let name = |text: &str| Some(SessionName(text.into()));
        assert_eq!(plan, [(1, name("a")), (2, name("b")), (3, None)]);
    }

    #[test]
    fn the_number_of_environments_is_bounded() {
        let records: Vec<_> = (0..20_000).map(|number| granted(number, "a", 1)).collect();
        assert_eq!(plan(&records).len(), MAX_ENVIRONMENTS);
    }
}
