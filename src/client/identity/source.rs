//! Where the identity token of this job is: in a variable, in a file, or with the CI.

use std::path::PathBuf;

use super::github::GitHub;
use crate::connection::secret::{Secret, read_line};
use crate::failure::Failure;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentitySource {
    /// `LOCKKEEPER_IDENTITY_TOKEN`
    Given(Secret),
    /// `LOCKKEEPER_IDENTITY_TOKEN_FILE`, read each time: whoever wrote it renews it.
    File(PathBuf),
    GitHub(GitHub),
}

impl IdentitySource {
    /// Chosen by the user, in a variable or a file.
    pub fn chosen(variable: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let given = variable("LOCKKEEPER_IDENTITY_TOKEN").map(|token| Self::Given(Secret::new(token.trim())));
        given.or_else(|| variable("LOCKKEEPER_IDENTITY_TOKEN_FILE").map(|file| Self::File(PathBuf::from(file))))
    }

    /// Offered by the CI to every job. `server` is the server's address, the audience by default.
    pub fn of_ci(variable: &dyn Fn(&str) -> Option<String>, server: &str) -> Option<Self> {
        let url = variable("ACTIONS_ID_TOKEN_REQUEST_URL")?;
        let token = Secret::new(&variable("ACTIONS_ID_TOKEN_REQUEST_TOKEN")?);
        let audience = variable("LOCKKEEPER_AUDIENCE").unwrap_or_else(|| server.to_owned());
        Some(Self::GitHub(GitHub { url, token, audience }))
    }

    pub async fn identity_token(&self) -> Result<Secret, Failure> {
        match self {
            Self::Given(token) => Ok(token.clone()),
            Self::File(file) => read_line(file, "identity token file"),
            Self::GitHub(github) => github.identity_token().await,
        }
    }
}

#[cfg(test)]
mod tests {
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
            Some(IdentitySource::GitHub(GitHub { url: "https://x".to_owned(), token: Secret::new("t"), audience }))
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
}
