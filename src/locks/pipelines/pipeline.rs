//! One pipeline, and its definition by a file or a request. All values are within their limits: callers check them with
//! the functions here and in the domain first.

use std::ops::RangeInclusive;
use std::sync::Arc;

use domain::named::named_enum;
use domain::pipeline::URL_LENGTH_MAX;
use domain::{Blueprint, Context, Identifier, Malformed, Person, PipelineKey, Timestamp, VariableName};

/// The statuses that an HTTP step may expect: all that HTTP allows.
pub const STATUSES: RangeInclusive<u32> = 100..=599;
/// More statuses than any step distinguishes.
pub const EXPECTED_STATUSES_MAX: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    pub key: PipelineKey,
    /// The display name.
    pub name: String,
    pub slug: Identifier,
    pub blueprint: Arc<Blueprint>,
    pub repository: Option<Repository>,
    pub stopped: Option<Stopped>,
    /// Changes with every change of the pipeline, and is never reused.
    pub revision: u64,
}

/// Who stopped the pipeline, when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    pub by: Person,
    pub at: Timestamp,
    pub reason: Option<Context>,
}

/// A pipeline as defined by a file or a request, without its stopped state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub name: String,
    pub slug: Identifier,
    pub blueprint: Arc<Blueprint>,
    pub repository: Option<Repository>,
}

/// The repository with the code that a pipeline deploys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    pub provider: Provider,
    pub url: Arc<str>,
    pub default_branch: Arc<str>,
    /// The name of the secret, of the pipeline or its organization, for pushing and for opening pull requests.
    pub credential: Option<VariableName>,
    /// The API of a self-hosted GitHub server.
    pub api_url: Option<Arc<str>>,
}

named_enum! {
    pub enum Provider {
        Git = "git",
        GitHub = "github",
    }
}

impl Pipeline {
    pub(super) fn is_as(&self, definition: &Definition) -> bool {
        let Definition { name, slug, blueprint, repository } = definition;
        (&self.name, &self.slug, &self.blueprint, &self.repository) == (name, slug, blueprint, repository)
    }
}

impl Definition {
    pub(super) fn into_pipeline(self, key: PipelineKey, stopped: Option<Stopped>, revision: u64) -> Pipeline {
        let Definition { name, slug, blueprint, repository } = self;
        Pipeline { key, name, slug, blueprint, repository, stopped, revision }
    }
}

/// Allows everything that [`check_repository_url`] does, apart from the length.
pub const REPOSITORY_URL_PATTERN: &str = "^((https://|ssh://([A-Za-z0-9._~-]+@)?)[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?\
                                          (/[!-~]*)?|git@[A-Za-z0-9][A-Za-z0-9.-]*:[!-~]+|file:///[!-~]+)$";
/// Allows everything that [`check_api_url`] does, apart from the length.
pub const API_URL_PATTERN: &str = "^(https://[A-Za-z0-9][A-Za-z0-9.-]*|http://(localhost|127\\.0\\.0\\.1))(:[0-9]{1,5})?\
                                   (/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?$";

/// Checks only the form: whether the repository exists is found out when it is needed. Refuses a password, and a token
/// in place of the user in an https URL, since every reader of the pipeline would see it; and a host that ssh could
/// mistake for an option.
pub fn check_repository_url(text: &str) -> Result<(), Malformed> {
    let form = "must be the https, ssh or file URL of a repository, or git@host:path, of at most 2048 visible ASCII characters";
    let sane = text.len() <= URL_LENGTH_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    let with_host = text.strip_prefix("https://").or_else(|| text.strip_prefix("ssh://"));
    let is_sound = if let Some(rest) = with_host {
        let authority = rest.split('/').next().unwrap_or_default();
        let (user, place) = authority.rsplit_once('@').map_or((None, authority), |(user, place)| (Some(user), place));
        if user.is_some_and(|user| user.contains(':')) {
            return Err(Malformed("must not contain a password: everybody who may view the pipeline would see it"));
        }
        if user.is_some() && text.starts_with("https://") {
            return Err(Malformed(
                "must not contain a user or token: store the token as a secret and name it as `credential`",
            ));
        }
        user.is_none_or(|user| !user.is_empty() && user.bytes().all(is_unreserved)) && is_authority(place)
    } else if let Some(rest) = text.strip_prefix("git@") {
        rest.split_once(':').is_some_and(|(host, path)| is_host(host) && !path.is_empty())
    } else {
        text.strip_prefix("file:///").is_some_and(|path| !path.is_empty())
    };
    (sane && is_sound).then_some(()).ok_or(Malformed(form))
}

/// The characters without a special meaning in a URL.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._~-".contains(&byte)
}

/// A host with or without a port.
fn is_authority(text: &str) -> bool {
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let is_port = |port: &str| (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit());
    is_host(host) && port.is_none_or(is_port)
}

fn is_host(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
}

/// Every request sends a credential to this URL, so it must be encrypted or stay on this machine.
pub fn check_api_url(text: &str) -> Result<(), Malformed> {
    let is_sound = || {
        let (rest, is_plain) = match text.strip_prefix("http://") {
            Some(rest) => (rest, true),
            None => (text.strip_prefix("https://")?, false),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_here = matches!(authority.split(':').next(), Some("localhost" | "127.0.0.1"));
        let is_segment = |text: &str| !text.is_empty() && !text.starts_with('.') && text.bytes().all(is_unreserved);
        let path = path.strip_suffix('/').unwrap_or(path);
        let is_path = path.is_empty() || path.split('/').all(is_segment);
        (is_authority(authority) && (is_here || !is_plain) && is_path).then_some(())
    };
    let form = "must be the https URL of a server's API, such as https://github.example/api/v3, of at most 2048 characters; \
                http only for localhost";
    if text.len() <= URL_LENGTH_MAX && is_sound().is_some() { Ok(()) } else { Err(Malformed(form)) }
}

/// The default branch of a repository.
pub fn default_branch() -> Arc<str> {
    Arc::from("main")
}

/// The default method of an HTTP step.
pub fn default_method(has_body: bool) -> Arc<str> {
    Arc::from(if has_body { "POST" } else { "GET" })
}

/// The default name of a step, by its position in its stage.
pub fn step_name(place: usize) -> Identifier {
    Identifier::parse(&format!("step-{}", place + 1)).expect("a word and a number are within the bounds")
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::patterns::assert_pattern_fits;

    #[test]
    fn an_api_is_reached_encrypted_or_on_this_machine() {
        let good =
            ["https://github.example/api/v3", "https://git.example:8443", "http://127.0.0.1:80/", "http://localhost"];
        let bad = [
            "",
            "https://",
            "http://github.example/api/v3",
            "http://localhost.example",
            "https://me:x@git.example",
            "https://git.example/a?b",
            "https://git.example/../x",
            "https://git.example:port",
            "ftp://git.example",
        ];
        assert_pattern_fits(API_URL_PATTERN, |text| check_api_url(text).is_ok(), &good, &bad);
    }

    #[test]
    fn a_repository_is_named_by_one_of_four_forms_and_shows_no_password_or_token() {
        let good = [
            "https://git.example/shop.git",
            "ssh://git@git.example:2222/shop.git",
            "git@git.example:team/shop.git",
            "file:///srv/git/shop.git",
        ];
        let bad = [
            "",
            "https://",
            "https:///shop",
            "https://git@/shop",
            "http://git.example/shop.git",
            "ext::sh -c true",
            "--upload-pack=x",
            "git@-oProxyCommand=x:y",
            "git@git.example",
            "ssh://-oProxyCommand=x/y",
            "https://git.example:port/shop",
            "https://[git.example/shop",
            "file://elsewhere/shop",
            "https://git.example/a b",
            "https://bot:hunter2@git.example/shop.git",
            "https://t0ken@git.example/shop.git",
        ];
        let allows = |text: &str| check_repository_url(text).is_ok();
        assert_pattern_fits(REPOSITORY_URL_PATTERN, allows, &good, &bad);
        let of_length = |length: usize| format!("https://{}", "x".repeat(length - 8));
        assert!(allows(&of_length(URL_LENGTH_MAX)) && !allows(&of_length(URL_LENGTH_MAX + 1)));
    }
}
