//! Owns the bytes of this scenario's requests, and the reading of their answers.

use serde::Deserialize;

use crate::options::QueuePlan;

pub struct Requests {
    pub put: Vec<u8>,
    pub claim_at_once: Vec<u8>,
    pub claim_waiting: Vec<u8>,
    pub claim_queued: Vec<u8>,
    pub read: Vec<u8>,
    path: String,
    headers: String,
}

impl Requests {
    pub fn new(plan: &QueuePlan, wait_seconds: u64) -> Self {
        let path = format!(
            "/api/v1/organizations/{}/pipelines/{}/ephemeral-environments/{}",
            plan.organization, plan.pipeline, plan.environment
        );
        let headers =
            format!(" HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n", plan.authority, plan.token.reveal());
        let with = |line: String, body: String| {
            let length = body.len();
            format!("{line}{headers}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
                .into_bytes()
        };
        let longest = plan.waiters.iter().max().copied().unwrap_or(0) + plan.queued;
        Self {
            put: with(format!("PUT {path}"), format!("{{\"maxQueueLength\":{longest}}}")),
            claim_at_once: with(format!("POST {path}/sessions"), "{}".to_owned()),
            claim_waiting: with(format!("POST {path}/sessions"), format!("{{\"waitSeconds\":{wait_seconds}}}")),
            // Behind all the others, so that their hand-overs are what is measured.
            claim_queued: with(format!("POST {path}/sessions"), r#"{"queue":true,"priority":-1}"#.to_owned()),
            read: format!("GET {path}{headers}\r\n").into_bytes(),
            path,
            headers,
        }
    }

    pub fn release(&self, session: &str) -> Vec<u8> {
        format!("DELETE {}/sessions/{session}{}\r\n", self.path, self.headers).into_bytes()
    }
}

/// How many wait for an environment.
pub fn queue_length(body: &[u8]) -> Option<usize> {
    #[derive(Deserialize)]
    struct Answer {
        data: Environment,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Environment {
        queue_length: usize,
    }
    Some(serde_json::from_slice::<Answer>(body).ok()?.data.queue_length)
}

/// The id of a session that is only queued.
pub fn queued_session(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Answer {
        data: Queued,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Queued {
        session_id: String,
    }
    let id = serde_json::from_slice::<Answer>(body).ok()?.data.session_id;
    // It goes into a request line next.
    let usable = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (!id.is_empty() && id.bytes().all(usable)).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_and_its_sessions_are_read() {
        assert_eq!(queue_length(br#"{"data": {"lock": {"queueLength": 1}, "queueLength": 7}}"#), Some(7));
        assert_eq!(queue_length(b"{}"), None);
        let queued = br#"{"data": {"sessionId": "ses_1q2", "fencingToken": null}}"#;
        assert_eq!(queued_session(queued).as_deref(), Some("ses_1q2"));
        assert_eq!(queued_session(br#"{"data": {"sessionId": "a b"}}"#), None);
    }
}
