//! Parses the few relevant fields of JSON bodies. Typed and borrowed, so that the rest of a body costs no allocation
//! and little time.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::history::SessionStatus;

#[derive(Deserialize)]
struct Wrapped<T> {
    data: T,
}

/// The `data` member of a successful answer.
pub fn data<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    serde_json::from_slice::<Wrapped<T>>(body).ok().map(|wrapped| wrapped.data)
}

/// A session, in the form common to all answers about one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionBody<'a> {
    #[serde(default)]
    pub session_id: &'a str,
    pub env_name: Option<&'a str>,
    pub lock_status: Option<&'a str>,
    pub fencing_token: Option<u64>,
    pub queue_position: Option<usize>,
    #[serde(borrow)]
    pub overrode: Option<Lock<'a>>,
    #[serde(default)]
    deployments: Vec<IgnoredAny>,
    /// The total, if the list is cut short.
    #[serde(default)]
    deployment_count: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lock<'a> {
    pub session_id: &'a str,
    pub fencing_token: u64,
}

pub struct Grant<'a> {
    pub session_id: &'a str,
    pub fencing_token: u64,
    pub env_name: Option<&'a str>,
}

impl<'a> Grant<'a> {
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let SessionBody { session_id, fencing_token, env_name, .. } = data(body)?;
        let fencing_token = fencing_token.filter(|_| usable_in_a_path(session_id))?;
        Some(Self { session_id, fencing_token, env_name })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentView<'a> {
    #[serde(borrow)]
    pub lock: Option<Lock<'a>>,
    pub queue_length: u64,
}

impl<'a> EnvironmentView<'a> {
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        let view: Self = data(body)?;
        view.lock.as_ref().is_none_or(|lock| usable_in_a_path(lock.session_id)).then_some(view)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionView {
    pub status: SessionStatus,
    /// 0 if the session never held the lock.
    pub fencing_token: u64,
    pub deployments: u64,
}

impl SessionView {
    pub fn parse(body: &[u8]) -> Option<Self> {
        let session: SessionBody = data(body)?;
        let status = match session.lock_status? {
            "queued" => SessionStatus::Queued,
            "active" => SessionStatus::Active,
            "released" | "expired" => SessionStatus::Ended,
            "overridden" => SessionStatus::Overridden,
            _ => return None,
        };
        let deployments = session.deployment_count.max(session.deployments.len() as u64);
        Some(Self { status, fencing_token: session.fencing_token.unwrap_or(0), deployments })
    }
}

/// The id of a created object.
pub fn made_id(body: &[u8], member: &str) -> Option<String> {
    let id = data::<serde_json::Value>(body)?.get(member)?.as_str()?.to_owned();
    usable_in_a_path(&id).then_some(id)
}

/// Number of pages of the history.
pub fn total_pages(body: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Page {
        pagination: Pagination,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Pagination {
        total_pages: u64,
    }
    Some(serde_json::from_slice::<Page>(body).ok()?.pagination.total_pages)
}

pub fn problem_code(body: &[u8]) -> Option<&str> {
    #[derive(Deserialize)]
    struct Problem<'a> {
        code: &'a str,
    }
    let code = serde_json::from_slice::<Problem>(body).ok()?.code;
    // Codes are snake_case words; anything else could be of any length and is kept out of the report.
    let is_code = code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_code.then_some(code)
}

/// Whether the id is safe in a request line.
fn usable_in_a_path(id: &str) -> bool {
    let usable = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !id.is_empty() && id.bytes().all(usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_read_from_data_and_from_nowhere_else() {
        let body = br#"{"meta": {"sessionId": "ses_0"}, "data": {"overrode": {"sessionId": "ses_1", "fencingToken": 1},
            "context": "\"sessionId\": \"x\"", "sessionId": "ses_2", "fencingToken": 18446744073709551615}}"#;
        let grant = Grant::parse(body).expect("a grant");
        assert_eq!((grant.session_id, grant.fencing_token, grant.env_name), ("ses_2", u64::MAX, None));
    }

    #[test]
    fn a_body_without_a_usable_grant_is_none() {
        for body in [
            "",
            "{}",
            r#"{"data": {"sessionId": "ses_1"}}"#,
            r#"{"data": {"sessionId": "ses_1", "fencingToken": null}}"#,
            r#"{"data": {"sessionId": "ses_1", "fencingToken": -1}}"#,
            r#"{"data": {"sessionId": "", "fencingToken": 1}}"#,
            r#"{"data": {"sessionId": "a/../b", "fencingToken": 1}}"#,
            r#"{"data": {"sessionId": "a b", "fencingToken": 1}}"#,
        ] {
            assert!(Grant::parse(body.as_bytes()).is_none(), "{body}");
        }
    }

    #[test]
    fn an_environment_is_read_free_or_held() {
        let free = EnvironmentView::parse(br#"{"data": {"lock": null, "queueLength": 0}}"#).expect("an environment");
        assert!(free.lock.is_none());
        let body =
            br#"{"data": {"lock": {"sessionId": "ses_1", "queueLength": 1, "fencingToken": 4}, "queueLength": 7}}"#;
        let held = EnvironmentView::parse(body).expect("an environment");
        assert_eq!(held.queue_length, 7);
        assert_eq!(held.lock.map(|lock| (lock.session_id, lock.fencing_token)), Some(("ses_1", 4)));
        assert!(EnvironmentView::parse(b"{}").is_none());
    }

    #[test]
    fn a_session_is_read_with_all_its_deployments() {
        let body = br#"{"data": {"lockStatus": "released", "fencingToken": 3, "deployments": [{}, {}], "deploymentCount": 9}}"#;
        let view = SessionView { status: SessionStatus::Ended, fencing_token: 3, deployments: 9 };
        assert_eq!(SessionView::parse(body), Some(view));
        let body = br#"{"data": {"lockStatus": "queued", "fencingToken": null, "deployments": []}}"#;
        let view = SessionView { status: SessionStatus::Queued, fencing_token: 0, deployments: 0 };
        assert_eq!(SessionView::parse(body), Some(view));
        assert_eq!(SessionView::parse(br#"{"data": {"lockStatus": "melted"}}"#), None);
    }

    #[test]
    fn queued_sessions_and_pages_are_read() {
        let queued = br#"{"data": {"sessionId": "ses_1q2", "fencingToken": null}}"#;
        assert_eq!(made_id(queued, "sessionId").as_deref(), Some("ses_1q2"));
        assert_eq!(made_id(br#"{"data": {"sessionId": "a b"}}"#, "sessionId"), None);
        assert_eq!(total_pages(br#"{"data": [], "pagination": {"page": 1, "totalPages": 12}}"#), Some(12));
    }

    #[test]
    fn only_a_short_plain_problem_code_is_repeated() {
        assert_eq!(problem_code(br#"{"status": 409, "code": "environment_locked"}"#), Some("environment_locked"));
        for body in [&b"<html>"[..], br#"{"code": "A\u0007"}"#, br#"{"code": "lk_SECRET1"}"#] {
            assert_eq!(problem_code(body), None);
        }
    }
}
