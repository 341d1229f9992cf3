//! `lockkeeper login`, `logout` and `whoami`: profiles, which store the URL and token of a server, and the owner of a
//! token.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::api::{Api, CALLER};
use crate::arguments::identifier;
use crate::connection::options::{DEFAULT_URL, Options, Settings, TOKEN_FILE, trimmed, variable};
use crate::connection::profile::{self, DEFAULT_NAME, Profile, Profiles};
use crate::connection::secret::{Secret, read_hidden, read_line};
use crate::failure::Failure;
use crate::output::text::{harmless, shown_of};
use crate::output::{Out, fields, note, text_of, times};

/// A token is far shorter.
const STDIN_BYTES_MAX: u64 = 16 * 1024;

#[derive(clap::Args)]
pub struct Login {
    /// Read the token from stdin instead of asking for it
    #[arg(long)]
    token_stdin: bool,
    #[command(flatten)]
    options: Options,
}

#[derive(clap::Args)]
pub struct Logout {
    /// Also revoke the token at the server
    #[arg(long)]
    revoke: bool,
    #[command(flatten)]
    options: Options,
}

/// Asks for a token, checks it with the server, and writes the profile.
pub async fn login(arguments: Login) -> Result<(), Failure> {
    let Login { token_stdin, options } = arguments;
    let path = profile_path()?;
    let mut profiles = Profiles::load(&path)?;
    let name = options.profile.clone().or_else(|| variable("LOCKKEEPER_PROFILE"));
    let name = identifier(name.as_deref().unwrap_or(DEFAULT_NAME))
        .map_err(|rule| Failure::Usage(format!("a profile {rule}")))?;
    let known = profiles.profiles.get(&name);
    let url = options.url.clone().or_else(|| variable("LOCKKEEPER_URL")).or_else(|| Some(known?.url.clone()));
    let url = url.map_or_else(|| DEFAULT_URL.to_owned(), |url| trimmed(&url));
    let same_server = known.filter(|known| known.url == url);
    let ca_file = options.ca_file.clone().or_else(|| variable("LOCKKEEPER_CA_FILE").map(PathBuf::from));
    let ca_file =
        ca_file.or_else(|| same_server?.ca_file.clone()).map(|file| std::path::absolute(&file).unwrap_or(file));
    let settings = Settings {
        token: Some(asked_token(&options, token_stdin, &url)?),
        organization: None,
        pipeline: options.pipeline.clone().or_else(|| same_server?.pipeline.clone()),
        ca_file,
        url,
        patience: Duration::from_secs(options.retry),
    };
    let api = Api::connect_as(settings.clone(), None).await?;
    let caller = api.get(CALLER).await?.data;
    if let Some(wanted) = options.org.as_deref().filter(|wanted| *wanted != api.organization) {
        let organization = &api.organization;
        return Err(Failure::Denied(format!("the token is for the organization {organization}, not for {wanted}")));
    }
    if let Some(pipeline) = api.given_pipeline() {
        api.get(&format!("/pipelines/{pipeline}")).await?;
    }
    let organization = Some(api.organization.clone());
    let Settings { url, token, pipeline, ca_file, .. } = settings;
    profiles.profiles.insert(name.clone(), Profile { url, token, organization, pipeline, ca_file });
    profiles.default = Some(name.clone());
    profiles.save(&path)?;
    let out = options.out();
    out.record(&caller, |caller| caller_lines(caller, api.url()))?;
    note(&format!("logged in: profile {name} in {}", path.display()));
    // These variables would override the profile, which would be hard to notice.
    for name in ["LOCKKEEPER_TOKEN", "LOCKKEEPER_TOKEN_FILE"] {
        if variable(name).is_some() {
            note(&format!("{name} is set and wins over the profile; unset it to use the profile"));
        }
    }
    Ok(())
}

fn asked_token(options: &Options, token_stdin: bool, url: &str) -> Result<Secret, Failure> {
    if let Some(file) = &options.token_file {
        return read_line(file, TOKEN_FILE);
    }
    let token = if token_stdin {
        let mut text = String::new();
        let read = std::io::stdin().take(STDIN_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| Failure::Usage(format!("cannot read the token from stdin: {error}")))?;
        Secret::new(text.lines().next().unwrap_or_default().trim())
    } else if std::io::stdin().is_terminal() {
        let typed = read_hidden(&format!("Token for {url} (dashboard: Settings, API tokens)"))?;
        Secret::new(typed.reveal().trim())
    } else {
        return Err(Failure::Usage(
            "stdin is no terminal; pipe the token to `lockkeeper login --token-stdin`".to_owned(),
        ));
    };
    if token.reveal().is_empty() {
        return Err(Failure::Usage("no token was given".to_owned()));
    }
    Ok(token)
}

/// Removes a profile.
pub async fn logout(arguments: Logout) -> Result<(), Failure> {
    let Logout { revoke, options } = arguments;
    let path = profile_path()?;
    let mut profiles = Profiles::load(&path)?;
    let named = options.profile.clone().or_else(|| variable("LOCKKEEPER_PROFILE"));
    let Some(name) = named.or_else(|| profiles.default.clone()) else {
        return Err(Failure::NotFound("there is no profile to log out of".to_owned()));
    };
    let Some(removed) = profiles.profiles.remove(&name) else {
        return Err(Failure::NotFound(format!("no profile {name} in {}", path.display())));
    };
    if revoke {
        revoke_token(&removed, options.retry).await?;
    }
    if profiles.default.as_ref() == Some(&name) {
        // No other profile becomes the default: commands would go to another server.
        profiles.default = None;
    }
    profiles.save(&path)?;
    note(&format!("logged out: profile {name} is removed from {}", path.display()));
    Ok(())
}

async fn revoke_token(profile: &Profile, retry: u64) -> Result<(), Failure> {
    let settings = Settings {
        url: profile.url.clone(),
        token: profile.token.clone(),
        organization: profile.organization.clone(),
        pipeline: None,
        ca_file: profile.ca_file.clone(),
        patience: Duration::from_secs(retry),
    };
    let api = Api::connect_as(settings, None).await?;
    let caller = api.get(CALLER).await?.data;
    api.delete(&format!("/tokens/{}", text_of(&caller["token"], "tokenId"))).await.map(drop)
}

fn profile_path() -> Result<PathBuf, Failure> {
    profile::path().ok_or_else(|| Failure::Usage("set HOME or XDG_CONFIG_HOME, where profiles are kept".to_owned()))
}

pub async fn whoami(api: &Api, out: &Out) -> Result<(), Failure> {
    let caller = api.get(CALLER).await?.data;
    out.record(&caller, |caller| caller_lines(caller, api.url()))
}

/// Also shown by `login`.
fn caller_lines(caller: &Value, url: &str) -> Vec<String> {
    let token = &caller["token"];
    let expires = token["expiresAt"].as_str().map(|at| format!(", expires {} UTC", times::clock(at)));
    let expires = expires.unwrap_or_default();
    let name = token["name"].as_str();
    let token = name.map(|name| format!("{} ({}){expires}", harmless(name), shown_of(token, "tokenId")));
    fields(&[
        ("user", shown_of(&caller["user"], "name")),
        ("role", shown_of(caller, "role")),
        ("organization", shown_of(&caller["organization"], "id")),
        ("token", token.unwrap_or_default()),
        ("server", harmless(url)),
    ])
}
