//! Names that callers may pass to git: remotes, branches and tags, commits, paths in a tree, authors. None of them can
//! be mistaken for an option or a helper, or lead out of the repository.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use zeroize::Zeroizing;

use domain::Malformed;

/// Within the limits of every file system.
const PATH_BYTES_MAX: usize = 1024;
/// The user name that accompanies a token; repository hosts only check the token.
const TOKEN_USER: &str = "x-access-token";
const AUTHOR_CHARS_MAX: usize = 100;

/// The URL of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RemoteUrl {
    text: Arc<str>,
    scheme: Scheme,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Scheme {
    Https,
    Ssh,
    File,
}

impl RemoteUrl {
    /// Allows everything that [`Self::parse`] does, and larger port numbers.
    pub const BYTES_MAX: usize = 2048;
    pub const PATTERN: &str = "^(https://[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?/[!-~]+\
                               |ssh://([A-Za-z0-9][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?/[!-~]+\
                               |[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[!-,.-9;-~][!-~]*|file:///[!-~]+)$";

    /// `https://host/path`, `ssh://user@host/path`, `git@host:path`, and `file:///path` if the operator allows it.
    pub fn parse(text: &str, allow_file: bool) -> Result<Self, Malformed> {
        const FORM: Malformed = Malformed(
            "must be the https or ssh URL of a repository, or git@host:path, of at most 2048 visible ASCII characters",
        );
        if text.len() > Self::BYTES_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(FORM);
        }
        if text.starts_with("http://") {
            return Err(Malformed("must use https: with plain http anybody on the way could change the repository"));
        }
        let scheme = if let Some(rest) = text.strip_prefix("https://") {
            let (host, path) = rest.split_once('/').ok_or(FORM)?;
            if host.contains('@') {
                return Err(Malformed(
                    "must not contain a user or a password; name a secret as the credential instead",
                ));
            }
            (is_authority(host) && !path.is_empty()).then_some(Scheme::Https)
        } else if let Some(rest) = text.strip_prefix("ssh://") {
            let (authority, path) = rest.split_once('/').ok_or(FORM)?;
            let (user, authority) = authority.rsplit_once('@').unwrap_or(("git", authority));
            if user.contains(':') {
                return Err(Malformed("must not contain a password; the server's own ssh key is used"));
            }
            (is_user(user) && is_authority(authority) && !path.is_empty()).then_some(Scheme::Ssh)
        } else if let Some(path) = text.strip_prefix("file://") {
            if !allow_file {
                return Err(Malformed(
                    "must not be a file URL: the operator has not allowed them (git.allow_file_urls)",
                ));
            }
            (path.len() > 1 && path.starts_with('/')).then_some(Scheme::File)
        } else {
            let with_user = text.split_once('@').filter(|(user, _)| is_user(user));
            let host_and_path = with_user.and_then(|(_, rest)| rest.split_once(':'));
            // Two colons would name a helper, and a path that begins with '-' would be an option on the remote side.
            let is_valid =
                |(host, path): (&str, &str)| is_host(host) && !path.is_empty() && !path.starts_with([':', '-']);
            host_and_path.is_some_and(is_valid).then_some(Scheme::Ssh)
        };
        scheme.map(|scheme| Self { text: Arc::from(text), scheme }).ok_or(FORM)
    }

    /// Whether git connects to a host.
    pub fn is_remote(&self) -> bool {
        self.scheme != Scheme::File
    }

    /// Whether a credential is used: ssh has its own keys, and files have owners.
    pub fn takes_credential(&self) -> bool {
        self.scheme == Scheme::Https
    }
}

/// A host with or without a port.
fn is_authority(text: &str) -> bool {
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    is_host(host) && port.is_none_or(|port| port.parse::<u16>().is_ok() && !port.starts_with('+'))
}

fn is_host(text: &str) -> bool {
    is_user(text) && !text.contains('_')
}

fn is_user(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Texts that are checked when they are parsed.
macro_rules! checked_text {
    ($($name:ident . $field:tt),*) => {$(
        impl $name {
            pub fn as_str(&self) -> &str {
                &self.$field
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.$field)
            }
        }
    )*};
}
checked_text!(RemoteUrl.text, RefName.0, Commit.0, TreePath.0);

/// The short name of a branch or a tag, as allowed by `git check-ref-format`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefName(Arc<str>);

impl RefName {
    pub const BYTES_MAX: usize = 128;

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
        let is_valid = text.len() <= Self::BYTES_MAX
            && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"~^:?*[\\".contains(&byte))
            && text.split('/').all(part)
            && !text.starts_with(['-', '+'])
            && !text.ends_with('.')
            && !text.contains("..")
            && !text.contains("@{")
            && text != "@"
            && text != "HEAD"
            && !text.starts_with("refs/");
        is_valid.then(|| Self(Arc::from(text))).ok_or(Malformed(
            "must be the name of a branch or tag without refs/ in front: at most 128 visible ASCII characters that git allows",
        ))
    }

    /// Whether a server could treat both as the same branch: some have case-insensitive file systems.
    pub fn may_equal(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

/// The full hash of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Commit(Arc<str>);

impl Commit {
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_valid = is_hex && matches!(text.len(), 40 | 64);
        is_valid.then(|| Self(Arc::from(text))).ok_or(Malformed("must be the full hash of a commit, in lower case"))
    }
}

/// The path of a file in a tree: never outside it, and never one of git's own files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TreePath(Arc<str>);

impl TreePath {
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let part = |part: &str| !matches!(part, "" | "." | "..") && !is_git_dir(part);
        let is_valid = text.len() <= PATH_BYTES_MAX
            && !text.chars().any(|c| c.is_control() || c == '\\')
            && text.split('/').all(part);
        is_valid.then(|| Self(Arc::from(text))).ok_or(Malformed("must be the path of a file inside the repository"))
    }
}

/// Including the spellings that case-insensitive file systems and those with short names accept.
fn is_git_dir(part: &str) -> bool {
    let part = part.trim_end_matches(['.', ' ']).to_ascii_lowercase();
    part == ".git" || part.starts_with("git~")
}

/// A remote and its credential, which is only used with https.
#[derive(Debug, Clone)]
pub struct Remote {
    pub url: RemoteUrl,
    pub credential: Option<Credential>,
}

impl Remote {
    pub fn public(url: RemoteUrl) -> Self {
        Self { url, credential: None }
    }

    pub(super) fn usable_credential(&self) -> Option<&Credential> {
        self.credential.as_ref().filter(|_| self.url.takes_credential())
    }
}

/// An access token of a repository host.
#[derive(Clone)]
pub struct Credential {
    token: Zeroizing<String>,
    encoded: Zeroizing<String>,
}

impl Credential {
    pub fn token(token: &str) -> Self {
        let token = Zeroizing::new(token.trim().to_owned());
        let pair = Zeroizing::new(format!("{TOKEN_USER}:{}", *token));
        let encoded = Zeroizing::new(BASE64_STANDARD.encode(pair.as_bytes()));
        Self { token, encoded }
    }

    pub(super) fn authorization(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("Authorization: Basic {}", *self.encoded))
    }

    /// The text with the token masked, in plain and encoded form.
    pub(super) fn mask(&self, text: &str) -> String {
        let forms = [&*self.encoded, &*self.token].into_iter().filter(|form| !form.is_empty());
        forms.fold(text.to_owned(), |text, form| text.replace(form.as_str(), "***"))
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(…)")
    }
}

/// The author of a commit.
#[derive(Debug, Clone)]
pub struct Author {
    pub(super) name: String,
    pub(super) email: String,
}

impl Author {
    /// Drops the characters that git does not accept in a name.
    pub fn new(name: &str, email: &str) -> Self {
        let plain = |text: &str| -> String {
            let kept = text.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>'));
            kept.take(AUTHOR_CHARS_MAX)
                .collect::<String>()
                .trim_matches([' ', '.', ',', ':', ';', '"', '\'', '\\'])
                .to_owned()
        };
        let or = |text: String, otherwise: &str| if text.is_empty() { otherwise.to_owned() } else { text };
        Self { name: or(plain(name), "lockkeeper"), email: or(plain(email), "lockkeeper@localhost") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_is_one_of_the_forms_that_cannot_run_anything_here() {
        let pattern = regex::Regex::new(RemoteUrl::PATTERN).expect("the pattern is a regular expression");
        for good in [
            "https://git.example/shop.git",
            "https://git.example:8443/team/shop",
            "ssh://git@git.example:2222/shop.git",
            "ssh://git.example/shop.git",
            "git@git.example:team/shop.git",
        ] {
            assert!(RemoteUrl::parse(good, false).is_ok(), "{good}");
            assert!(pattern.is_match(good), "{good}");
        }
        for bad in [
            "",
            "shop",
            "/srv/git/shop",
            "../shop",
            "http://git.example/shop.git",
            "https://git.example",
            "https:///shop",
            "https://bot@git.example/shop",
            "https://bot:hunter2@git.example/shop",
            "https://git.example:99999/shop",
            "https://git.example/a b",
            "https://git.example/\u{e4}",
            "ssh://-oProxyCommand=x/y",
            "ssh://git:pw@git.example/y",
            "ssh://-l@git.example/y",
            "git@-oProxyCommand=x:y",
            "-u@git.example:y",
            "git@git.example:-x",
            "git@git.example::y",
            "ext::sh -c true",
            "ext::sh",
            "fd::7",
            "git://git.example/shop",
            "--upload-pack=x",
            "file:///srv/git/shop.git",
            "FILE:///srv/git/shop.git",
            &format!("https://git.example/{}", "x".repeat(2048)),
        ] {
            assert!(RemoteUrl::parse(bad, false).is_err(), "{bad}");
        }
        assert!(RemoteUrl::parse("file:///srv/git/shop.git", true).is_ok());
        for bad in ["file://elsewhere/shop", "file://", "file:///"] {
            assert!(RemoteUrl::parse(bad, true).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_branch_or_tag_is_what_git_allows_and_never_an_option() {
        for good in ["main", "v1.2.3", "feature/a-b_c", "lockkeeper/fix-anl_01", "a@b", "1"] {
            assert!(RefName::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-x",
            "+main",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a..b",
            "a.",
            "@",
            "a@{1}",
            "a b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "HEAD",
            "refs/heads/main",
            "ä",
            "a\n",
        ] {
            assert!(RefName::parse(bad).is_err(), "{bad}");
        }
        assert!(RefName::parse(&"x".repeat(129)).is_err());
    }

    #[test]
    fn a_path_stays_in_the_tree_and_out_of_the_git_directory() {
        for good in ["a", "docs/analysis.md", ".gitignore", "a/.github/b.yml", "..a", "a b"] {
            assert!(TreePath::parse(good).is_ok(), "{good}");
        }
        for bad in
            ["", "/a", "a/", "../a", "a/../b", ".", ".git/config", "a/.GIT/x", "git~1/x", ".git./x", "a\\b", "a\n"]
        {
            assert!(TreePath::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_credential_is_hidden_in_both_of_its_forms() {
        let credential = Credential::token("hunter2");
        let header = credential.authorization();
        let said = credential.mask(&format!("fatal: {} with hunter2", *header));
        assert_eq!(said, "fatal: Authorization: Basic *** with ***");
        assert_eq!(format!("{credential:?}"), "Credential(…)");
    }
}
