//! GitHub Actions: a job with the permission `id-token: write` asks GitHub for an identity token, a new one each time.

use std::time::Duration;

use reqwest::{Client, redirect};
use serde_json::Value;

use crate::connection::secret::Secret;
use crate::failure::Failure;

/// GitHub answers within a second.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitHub {
    /// From `ACTIONS_ID_TOKEN_REQUEST_URL`.
    pub url: String,
    /// From `ACTIONS_ID_TOKEN_REQUEST_TOKEN`.
    pub token: Secret,
    /// For whom the identity token is made.
    pub audience: String,
}

impl GitHub {
    /// By a client of its own: a certificate authority that was given is the server's, and not GitHub's.
    pub async fn identity_token(&self) -> Result<Secret, Failure> {
        // Fails only if one is installed already, which is as good.
        rustls::crypto::ring::default_provider().install_default().ok();
        let client = Client::builder().redirect(redirect::Policy::none()).timeout(ANSWER_WITHIN).build();
        let client = client.map_err(|_| unreachable("no connection can be prepared"))?;
        let url = with_audience(&self.url, &self.audience)?;
        let sent = client.get(url).bearer_auth(self.token.reveal()).send().await;
        // Without the error's own words, which have the address and its query.
        let answer =
            sent.map_err(|error| unreachable(if error.is_timeout() { "no answer in time" } else { "no connection" }))?;
        let status = answer.status().as_u16();
        if status != 200 {
            return Err(unreachable(&format!("status {status}")));
        }
        let body: Value = answer.json().await.map_err(|_| unreachable("the answer is not JSON"))?;
        let token = body["value"].as_str().ok_or_else(|| unreachable("the answer has no token"))?;
        Ok(Secret::new(token))
    }
}

/// The address has a query already.
fn with_audience(url: &str, audience: &str) -> Result<reqwest::Url, Failure> {
    let url = reqwest::Url::parse(url);
    let mut url = url.map_err(|_| Failure::Usage("ACTIONS_ID_TOKEN_REQUEST_URL is not an address".to_owned()))?;
    url.query_pairs_mut().append_pair("audience", audience);
    Ok(url)
}

fn unreachable(why: &str) -> Failure {
    Failure::Unreachable(format!("GitHub gives no identity token: {why}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_audience_is_added_to_the_query() {
        let url = with_audience("https://actions.example/token?api-version=2", "https://lock.example/?a&b").unwrap();
        assert_eq!(url.query(), Some("api-version=2&audience=https%3A%2F%2Flock.example%2F%3Fa%26b"));
        assert_eq!(with_audience("nothing", "x").unwrap_err().code(), 2);
    }
}
