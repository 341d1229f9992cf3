//! Owns the reading of JSON bodies, of which only a few fields matter here.

use serde::Deserialize;

/// What a claim gave.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant<'a> {
    pub session_id: &'a str,
    pub fencing_token: u64,
}

impl<'a> Grant<'a> {
    /// Typed and borrowed, so that the rest of the body costs neither an allocation nor much time.
    pub fn parse(body: &'a [u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Answer<'a> {
            #[serde(borrow)]
            data: Grant<'a>,
        }
        let grant = serde_json::from_slice::<Answer>(body).ok()?.data;
        // It goes into a request line next.
        let usable = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        (!grant.session_id.is_empty() && grant.session_id.bytes().all(usable)).then_some(grant)
    }
}

/// Why a request was refused.
pub fn problem_code(body: &[u8]) -> Option<&str> {
    #[derive(Deserialize)]
    struct Problem<'a> {
        code: &'a str,
    }
    let code = serde_json::from_slice::<Problem>(body).ok()?.code;
    // Codes are snake_case words; anything else, of any length, does not belong in our report.
    let is_code = code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_code.then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_read_from_data_and_from_nowhere_else() {
        let body = br#"{"meta": {"sessionId": "ses_0"}, "data": {"overrode": {"sessionId": "ses_1", "fencingToken": 1},
            "context": "\"sessionId\": \"x\"", "sessionId": "ses_2", "fencingToken": 18446744073709551615}}"#;
        let grant = Grant::parse(body).expect("a grant");
        assert_eq!((grant.session_id, grant.fencing_token), ("ses_2", u64::MAX));
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
    fn only_a_short_plain_problem_code_is_repeated() {
        assert_eq!(problem_code(br#"{"status": 409, "code": "environment_locked"}"#), Some("environment_locked"));
        for body in [&b"<html>"[..], br#"{"code": "A\u0007"}"#, br#"{"code": "lk_SECRET1"}"#] {
            assert_eq!(problem_code(body), None);
        }
    }
}
