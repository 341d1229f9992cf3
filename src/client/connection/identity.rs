//! The identity token of this job: given in a variable or a file, or requested from its CI. A job on GitHub Actions
//! with the permission `id-token: write` can request a new one at any time.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::{Client, Url, redirect};
use serde_json::Value;

use super::secret::{Secret, read_line};
use crate::failure::Failure;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentitySource {
    /// `LOCKKEEPER_IDENTITY_TOKEN`
    Given(Secret),
    /// `LOCKKEEPER_IDENTITY_TOKEN_FILE`, read each time, since its writer renews it.
    File(PathBuf),
    /// `ACTIONS_ID_TOKEN_REQUEST_URL`, and the token that authenticates requests for identity tokens.
    GitHub { url: String, token: Secret, audience: String },
}

impl IdentitySource {
    /// The source that the user has chosen, in a variable or a file.
    pub fn chosen(variable: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let given = variable("LOCKKEEPER_IDENTITY_TOKEN").map(|token| Self::Given(Secret::new(token.trim())));
        given.or_else(|| variable("LOCKKEEPER_IDENTITY_TOKEN_FILE").map(|file| Self::File(PathBuf::from(file))))
    }

    /// The source that the CI offers to every job. `server` is the server's address, the audience by default.
    pub fn of_ci(variable: &dyn Fn(&str) -> Option<String>, server: &str) -> Option<Self> {
        let url = variable("ACTIONS_ID_TOKEN_REQUEST_URL")?;
        let token = Secret::new(&variable("ACTIONS_ID_TOKEN_REQUEST_TOKEN")?);
        let audience = variable("LOCKKEEPER_AUDIENCE").unwrap_or_else(|| server.to_owned());
        Some(Self::GitHub { url, token, audience })
    }

    pub async fn identity_token(&self) -> Result<Secret, Failure> {
        match self {
            Self::Given(token) => Ok(token.clone()),
            Self::File(file) => read_line(file, "identity token file"),
            Self::GitHub { url, token, audience } => of_github(with_audience(url, audience)?, token).await,
        }
    }
}

/// GitHub answers within a second.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// With a separate client: a given certificate authority is for the server, not for GitHub.
async fn of_github(url: Url, token: &Secret) -> Result<Secret, Failure> {
    let unreachable = |why: &str| Failure::Unreachable(format!("GitHub gives no identity token: {why}"));
    // Fails only if a provider is installed already, which is fine.
    rustls::crypto::ring::default_provider().install_default().ok();
    let client = Client::builder().redirect(redirect::Policy::none()).timeout(ANSWER_WITHIN).build();
    let client = client.map_err(|_| unreachable("no connection can be prepared"))?;
    let sent = client.get(url).bearer_auth(token.reveal()).send().await;
    // Without the error's own text, which contains the address and its query.
    let answer =
        sent.map_err(|error| unreachable(if error.is_timeout() { "no answer in time" } else { "no connection" }))?;
    let status = answer.status().as_u16();
    if status != 200 {
        return Err(unreachable(&format!("status {status}")));
    }
    let body: Value = answer.json().await.map_err(|_| unreachable("the answer is not JSON"))?;
    body["value"].as_str().map(Secret::new).ok_or_else(|| unreachable("the answer has no token"))
}

/// Adds the audience to the address, which already has a query.
fn with_audience(url: &str, audience: &str) -> Result<Url, Failure> {
    let url = Url::parse(url);
    let mut url = url.map_err(|_| Failure::Usage("ACTIONS_ID_TOKEN_REQUEST_URL is not an address".to_owned()))?;
    url.query_pairs_mut().append_pair("audience", audience);
    Ok(url)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<IdentitySource> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        IdentitySource::chosen(&variable).or_else(|| IdentitySource::of_ci(&variable, "https://lock.example"))
    }

    #[test]
    fn what_was_chosen_wins_over_what_the_ci_offers() {
        let github = [("ACTIONS_ID_TOKEN_REQUEST_URL", "https://x"), ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "t")];
        let offered = |audience: &str| {
            let audience = audience.to_owned();
            Some(IdentitySource::GitHub { url: "https://x".to_owned(), token: Secret::new("t"), audience })
        };
        assert_eq!(found(&github), offered("https://lock.example"));
        assert_eq!(found(&[&github[..], &[("LOCKKEEPER_AUDIENCE", "aud")]].concat()), offered("aud"));
        assert_eq!(found(&github[..1]), None, "without the permission there is no token to ask with");
        let file = [&github[..], &[("LOCKKEEPER_IDENTITY_TOKEN_FILE", "/run/token")]].concat();
        assert_eq!(found(&file), Some(IdentitySource::File(PathBuf::from("/run/token"))));
        let given = [&file[..], &[("LOCKKEEPER_IDENTITY_TOKEN", " a.b.c\n")]].concat();
        assert_eq!(found(&given), Some(IdentitySource::Given(Secret::new("a.b.c"))));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn the_audience_is_added_to_the_query() {
        let url = with_audience("https://actions.example/token?api-version=2", "https://lock.example/?a&b").unwrap();
        assert_eq!(url.query(), Some("api-version=2&audience=https%3A%2F%2Flock.example%2F%3Fa%26b"));
        assert_eq!(with_audience("nothing", "x").unwrap_err().code(), 2);
    }
}
