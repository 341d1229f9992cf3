//! Derived from a repository's URL: the web page of a branch, and the address of a GitHub server's API.

use super::github::Repository;
use outbound::percent_encoded;

const GITHUB_API: &str = "https://api.github.com";

/// The page that compares a branch with its base, for known hosts; otherwise the remote with the branch's name.
pub fn compare(url: &str, base: &str, branch: &str) -> String {
    let [base_name, name] = [base, branch].map(|branch| percent_encoded(branch).replace("%2F", "/"));
    let Some((host, path)) = host_and_path(url).filter(|(host, path)| !host.is_empty() && !path.is_empty()) else {
        return format!("{url}#{branch}");
    };
    let is = |name: &str| host == format!("{name}.com") || host.starts_with(&format!("{name}."));
    if is("github") {
        format!("https://{host}/{path}/compare/{base_name}...{name}?expand=1")
    } else if is("gitlab") {
        format!("https://{host}/{path}/-/compare/{base_name}...{name}")
    } else if host == "bitbucket.org" {
        format!("https://{host}/{path}/branches/compare/{name}%0D{base_name}")
    } else {
        format!("{url}#{branch}")
    }
}

/// A GitHub repository by its URL: the last two segments are owner and name.
pub fn github(url: &str, api_url: Option<&str>) -> Option<Repository> {
    let (host, path) = host_and_path(url)?;
    let mut segments = path.rsplit('/');
    let (name, owner) = (segments.next()?, segments.next()?);
    let is_name = |text: &str| {
        let sane = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        sane && !matches!(text, "" | "." | "..")
    };
    if !is_name(name) || !is_name(owner) {
        return None;
    }
    let api = match api_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None if host == "github.com" || host == "ssh.github.com" => GITHUB_API.to_owned(),
        None if !host.is_empty() => format!("https://{host}/api/v3"),
        None => return None,
    };
    Some(Repository { api, owner: owner.to_owned(), name: name.to_owned() })
}

/// The host without user and port, and the path without `.git`. A file URL has no host.
fn host_and_path(url: &str) -> Option<(&str, &str)> {
    let (authority, path) = match url.split_once("://") {
        Some((_, rest)) => rest.split_once('/')?,
        None => url.split_once(':')?,
    };
    let host = authority.rsplit('@').next()?.split(':').next()?;
    let path = path.trim_matches('/');
    Some((host, path.strip_suffix(".git").unwrap_or(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hosts_have_a_page_that_compares_and_others_are_named_with_the_branch() {
        for (url, expected) in [
            ("https://github.com/acme/shop.git", "https://github.com/acme/shop/compare/main...fix/1%231?expand=1"),
            ("git@github.com:acme/shop.git", "https://github.com/acme/shop/compare/main...fix/1%231?expand=1"),
            (
                "https://github.example:8443/acme/shop",
                "https://github.example/acme/shop/compare/main...fix/1%231?expand=1",
            ),
            ("ssh://git@gitlab.com/acme/web/shop.git", "https://gitlab.com/acme/web/shop/-/compare/main...fix/1%231"),
            ("https://bitbucket.org/acme/shop", "https://bitbucket.org/acme/shop/branches/compare/fix/1%231%0Dmain"),
            ("https://git.example/shop.git", "https://git.example/shop.git#fix/1#1"),
            ("file:///srv/git/shop.git", "file:///srv/git/shop.git#fix/1#1"),
        ] {
            assert_eq!(compare(url, "main", "fix/1#1"), expected, "{url}");
        }
    }

    #[test]
    fn a_github_repository_is_found_by_its_url() {
        let found = |url, api| github(url, api).map(|found| (found.api, found.owner, found.name));
        let is = |api: &str, owner: &str, name: &str| Some((api.to_owned(), owner.to_owned(), name.to_owned()));
        assert_eq!(found("https://github.com/acme/shop.git", None), is(GITHUB_API, "acme", "shop"));
        assert_eq!(found("git@github.com:acme/shop", None), is(GITHUB_API, "acme", "shop"));
        assert_eq!(found("https://git.example/acme/shop/", None), is("https://git.example/api/v3", "acme", "shop"));
        let own = Some("https://api.git.example/v3/");
        assert_eq!(found("ssh://git@git.example/acme/shop.git", own), is("https://api.git.example/v3", "acme", "shop"));
        assert_eq!(found("file:///srv/acme/shop.git", own), is("https://api.git.example/v3", "acme", "shop"));
        for none in
            ["https://github.com/shop", "https://github.com/acme/sh%6Fp", "https://github.com/../shop", "file:///a/b"]
        {
            assert_eq!(found(none, None), None, "{none}");
        }
    }
}
