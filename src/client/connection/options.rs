//! The flags of every client command, and the precedence of flags, variables and the profile.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::identity::IdentitySource;
use super::profile::{self, Profile, Profiles};
use super::secret::{Secret, read_line};
use crate::arguments::seconds;
use crate::failure::Failure;
use crate::output::{Colour, Out};

/// The default address of a server on this machine.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8080";
/// The name of the file in error messages. The token is its first line.
pub const TOKEN_FILE: &str = "token file";
/// Longer than a restart of the server takes.
const RETRY_SECONDS: &str = "30";

#[derive(clap::Args, Debug, Clone)]
#[command(next_help_heading = "Connection")]
pub struct Options {
    /// The server, like https://lockkeeper.example; also LOCKKEEPER_URL [default: the profile's, else
    /// http://127.0.0.1:8080]
    #[arg(long, value_name = "URL", global = true)]
    pub url: Option<String>,
    /// The organization; also LOCKKEEPER_ORGANIZATION [default: the token's]
    #[arg(long, value_name = "ORG", global = true)]
    pub org: Option<String>,
    /// The pipeline; also LOCKKEEPER_PIPELINE [default: the only one there is]
    #[arg(long, value_name = "PIPELINE", global = true)]
    pub pipeline: Option<String>,
    /// A profile created by `lockkeeper login`; also LOCKKEEPER_PROFILE
    #[arg(long, value_name = "NAME", global = true)]
    pub profile: Option<String>,
    /// A file with the token, instead of LOCKKEEPER_TOKEN; also LOCKKEEPER_TOKEN_FILE
    #[arg(long, value_name = "FILE", global = true)]
    pub token_file: Option<PathBuf>,
    /// Trust the certificates in this PEM file, and no others; also LOCKKEEPER_CA_FILE
    #[arg(long, value_name = "FILE", global = true)]
    pub ca_file: Option<PathBuf>,
    /// How long to retry if the server cannot be reached or refuses temporarily
    #[arg(long, value_name = "DURATION", global = true, default_value = RETRY_SECONDS, value_parser = seconds)]
    pub retry: u64,
    /// Print JSON, the `data` of the server's answer, instead of tables
    #[arg(long, global = true)]
    pub json: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", global = true, value_enum, default_value_t = Colour::Auto)]
    pub color: Colour,
}

/// The result of options, variables and profile.
#[derive(Debug, Clone)]
pub struct Settings {
    pub url: String,
    /// None: an identity of the CI may be used instead.
    pub token: Option<Secret>,
    pub organization: Option<String>,
    pub pipeline: Option<String>,
    pub ca_file: Option<PathBuf>,
    /// How long requests are repeated.
    pub patience: Duration,
}

impl Options {
    pub fn out(&self) -> Out {
        Out::new(self.json, self.color)
    }

    pub fn resolve(&self) -> Result<Settings, Failure> {
        let profiles = match profile::path() {
            Some(path) => Profiles::load(&path)?,
            None => Profiles::default(),
        };
        self.resolve_with(&profiles, &variable)
    }

    fn resolve_with(
        &self,
        profiles: &Profiles,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Settings, Failure> {
        let url = self.url.clone().or_else(|| variable("LOCKKEEPER_URL")).map(|url| trimmed(&url));
        let named = self.profile.clone().or_else(|| variable("LOCKKEEPER_PROFILE"));
        let profile = chosen_profile(profiles, named, url.as_deref())?;
        let url = url.or_else(|| Some(trimmed(&profile?.url))).unwrap_or_else(|| DEFAULT_URL.to_owned());
        let token = self.given_token(variable)?;
        // An identity chosen for this job takes precedence over the profile of the machine's user.
        let has_identity = IdentitySource::chosen(variable).is_some();
        Ok(Settings {
            url,
            token: token.or_else(|| profile?.token.clone().filter(|_| !has_identity)),
            organization: (self.org.clone().or_else(|| variable("LOCKKEEPER_ORGANIZATION")))
                .or_else(|| profile?.organization.clone()),
            pipeline: (self.pipeline.clone().or_else(|| variable("LOCKKEEPER_PIPELINE")))
                .or_else(|| profile?.pipeline.clone()),
            ca_file: (self.ca_file.clone().or_else(|| variable("LOCKKEEPER_CA_FILE").map(PathBuf::from)))
                .or_else(|| profile?.ca_file.clone()),
            patience: Duration::from_secs(self.retry),
        })
    }

    /// Never from a flag: other processes see the arguments of this one.
    fn given_token(&self, variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Secret>, Failure> {
        if let Some(file) = &self.token_file {
            return read_line(file, TOKEN_FILE).map(Some);
        }
        if let Some(token) = variable("LOCKKEEPER_TOKEN") {
            return Ok(Some(Secret::new(token.trim())));
        }
        variable("LOCKKEEPER_TOKEN_FILE").map(|file| read_line(Path::new(&file), TOKEN_FILE)).transpose()
    }
}

/// A variable that is set and not empty: CIs set some variables to an empty value.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The named profile, or else the default one. A token is only sent to its own server: the default profile is ignored
/// with another address, and naming both is refused.
fn chosen_profile<'a>(
    profiles: &'a Profiles,
    named: Option<String>,
    url: Option<&str>,
) -> Result<Option<&'a Profile>, Failure> {
    let fits = |profile: &Profile| url.is_none_or(|url| url == trimmed(&profile.url));
    let Some(name) = named else {
        let default = profiles.default.as_ref().and_then(|name| profiles.profiles.get(name));
        return Ok(default.filter(|profile| fits(profile)));
    };
    let Some(profile) = profiles.profiles.get(&name) else {
        let known: Vec<&str> = profiles.profiles.keys().map(String::as_str).collect();
        let known =
            if known.is_empty() { "there are none".to_owned() } else { format!("there are: {}", known.join(", ")) };
        return Err(Failure::Usage(format!(
            "no profile {name}; {known}; make it with `lockkeeper login --profile {name}`"
        )));
    };
    if !fits(profile) {
        return Err(Failure::Usage(format!(
            "the profile {name} is for {}, and another address is given; leave one of both out",
            profile.url
        )));
    }
    Ok(Some(profile))
}

/// The URL without a trailing slash.
pub fn trimmed(url: &str) -> String {
    url.trim().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct FlagLine {
        #[command(flatten)]
        options: Options,
    }

    fn settings(flags: &[&str], variables: &[(&str, &str)]) -> Result<Settings, Failure> {
        let profile = |url: &str, token: &str| Profile {
            url: url.to_owned(),
            token: Some(Secret::new(token)),
            organization: Some("of-profile".to_owned()),
            pipeline: None,
            ca_file: None,
        };
        let profiles = [("main", profile("https://main/", "lk_main")), ("other", profile("https://other", "lk_other"))];
        let profiles = profiles.map(|(name, profile)| (name.to_owned(), profile)).into();
        let profiles = Profiles { default: Some("main".to_owned()), profiles };
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let line = FlagLine::parse_from(std::iter::once(&"lockkeeper").chain(flags));
        line.options.resolve_with(&profiles, &variable)
    }

    fn token(settings: &Settings) -> &str {
        settings.token.as_ref().map(Secret::reveal).unwrap_or_default()
    }

    #[test]
    fn flags_win_over_variables_and_those_over_the_profile() {
        let by_profile = settings(&[], &[]).unwrap();
        assert_eq!((by_profile.url.as_str(), token(&by_profile)), ("https://main", "lk_main"));
        let variables = [("LOCKKEEPER_ORGANIZATION", "of-variable"), ("LOCKKEEPER_TOKEN", "lk_variable")];
        let by_variable = settings(&[], &variables).unwrap();
        assert_eq!(by_variable.organization.as_deref(), Some("of-variable"));
        assert_eq!((by_variable.url.as_str(), token(&by_variable)), ("https://main", "lk_variable"));
        let by_flag = settings(&["--org", "of-flag"], &variables).unwrap();
        assert_eq!(by_flag.organization.as_deref(), Some("of-flag"));
    }

    #[test]
    fn the_token_of_a_profile_goes_to_no_other_server() {
        let elsewhere = settings(&["--url", "https://elsewhere"], &[]).unwrap();
        assert_eq!((token(&elsewhere), &elsewhere.organization), ("", &None));
        assert_eq!(token(&settings(&["--url", "https://main/"], &[]).unwrap()), "lk_main");
        let both = settings(&["--url", "https://elsewhere", "--profile", "other"], &[]).unwrap_err();
        assert_eq!(both.code(), 2);
        let named = settings(&[], &[("LOCKKEEPER_PROFILE", "other")]).unwrap();
        assert_eq!((named.url.as_str(), token(&named)), ("https://other", "lk_other"));
    }

    #[test]
    fn an_identity_that_was_chosen_wins_over_a_profile_and_one_of_the_ci_does_not() {
        let chosen = settings(&[], &[("LOCKKEEPER_IDENTITY_TOKEN", "a.b.c")]).unwrap();
        assert_eq!((token(&chosen), chosen.url.as_str()), ("", "https://main"));
        let both =
            settings(&[], &[("LOCKKEEPER_IDENTITY_TOKEN", "a.b.c"), ("LOCKKEEPER_TOKEN", "lk_variable")]).unwrap();
        assert_eq!(token(&both), "lk_variable");
        let github = [("ACTIONS_ID_TOKEN_REQUEST_URL", "https://x"), ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "t")];
        assert_eq!(token(&settings(&[], &github).unwrap()), "lk_main");
    }

    #[test]
    fn an_unknown_profile_is_refused_with_those_there_are() {
        let refused = settings(&["--profile", "mian"], &[]).unwrap_err().to_string();
        assert!(refused.contains("no profile mian; there are: main, other"), "{refused}");
    }

    #[test]
    fn a_token_can_come_from_a_file() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("token");
        std::fs::write(&file, "lk_of_file\n").unwrap();
        let given = settings(&["--token-file", file.to_str().unwrap()], &[("LOCKKEEPER_TOKEN", "lk_x")]).unwrap();
        assert_eq!(token(&given), "lk_of_file");
        std::fs::write(&file, "\n").unwrap();
        assert_eq!(settings(&["--token-file", file.to_str().unwrap()], &[]).unwrap_err().code(), 2);
    }
}
