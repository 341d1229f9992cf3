//! Providers of single sign-on in an organization file.

use super::Files;
use super::organizations::{check, sample_with_its_examples};
use crate::config::check_file;
use accounts::sso::{ClientSecret, GroupRole};
use domain::Role;

const PROVIDER: &str = "[[providers]]\nid = 'k'\nissuer = 'https://id.example'\nclient_id = 'lockkeeper'\n";

#[test]
fn what_a_provider_leaves_out_has_its_default() {
    let provider = check(&format!("{PROVIDER}default_role = 'viewer'\n")).unwrap().providers.remove(0);
    assert_eq!((provider.id.as_str(), provider.name.as_str()), ("k", "k"));
    assert_eq!((provider.groups_claim.as_str(), provider.name_claim.as_str()), ("groups", "preferred_username"));
    assert_eq!(provider.scopes, ["profile", "email"]);
    assert_eq!((provider.client_secret, provider.roles), (None, Vec::new()));
    assert_eq!(provider.default_role, Some(Role::Viewer));
}

#[test]
fn the_sample_explains_every_key_of_a_provider_and_reads_its_secret_without_the_line_break() {
    let text = sample_with_its_examples().join("\n");
    let files = Files::new(&[("acme.toml", &text), ("acme-login.secret", "s3cret\r\n")]);
    let mut acme = check_file(&files.path("acme.toml")).unwrap().organizations.remove(0).1;
    let provider = acme.providers.remove(0);
    assert_eq!((provider.id.as_str(), provider.name.as_str()), ("acme-login", "Acme login"));
    assert_eq!(provider.client_secret, Some(ClientSecret::new("s3cret")));
    assert_eq!(provider.scopes, ["profile", "email", "groups"]);
    assert_eq!(provider.roles[0], GroupRole { group: "platform".to_owned(), role: Role::Admin });
    assert_eq!((provider.roles.len(), provider.default_role), (2, Some(Role::Viewer)));
}

#[test]
fn all_faults_of_a_provider_are_told_and_never_its_secret() {
    let text = format!(
        "{PROVIDER}client_secret = 'swordfish'\nclient_secret_file = 'x'\n[[providers]]\nid = 'k'\n\
         issuer = 'http://id.example'\nclient_id = 'a b'\nscopes = ['a b']\nroles = [{{ group = 'g', role = 'boss' }}]\n\
         client_secret = \"sword\\nfish\"\n[[providers]]\nid = 'n'\nissuer = 'https://id.example'\nclient_id = 'c'\n\
         roles = [{{ group = 'g', role = 'admin' }}, {{ group = 'g', role = 'viewer' }}]\n"
    );
    let faults = check(&text).unwrap_err();
    assert_eq!(
        faults,
        [
            "o.toml:6: providers.roles must have at least one entry, or `default_role` be set: otherwise nobody can sign in",
            "o.toml:10: providers.client_secret must not be combined with `client_secret_file`",
            "o.toml:13: providers.id `k` is used twice; the first is on line 7",
            "o.toml:14: providers.issuer must be an https URL without query and fragment, or http on a loopback address",
            "o.toml:15: providers.client_id must be 1 to 255 visible ASCII characters without spaces",
            "o.toml:16: providers.scopes[0] must be 1 to 100 visible ASCII characters without spaces",
            "o.toml:17: providers.roles.role must be one of viewer, developer, maintainer, admin",
            "o.toml:18: providers.client_secret must be 1 to 1024 characters on one line",
            "o.toml:23: providers.roles.group `g` is used twice; the first is on line 23",
        ]
    );
}

#[test]
fn a_secret_in_a_file_that_is_missing_empty_or_too_large_is_a_fault() {
    let text = format!(
        "[organization]\nid = 'o'\n[[members]]\nname = 'root'\nrole = 'admin'\n{PROVIDER}client_secret_file = 'secret'\n\
         default_role = 'viewer'\n"
    );
    let large = "x".repeat(1025);
    for (secret, expected) in [
        (None, "No such file"),
        (Some(""), "it must be 1 to 1024 characters"),
        (Some("\n"), "it must be 1 to 1024 characters"),
        (Some("two\nlines"), "it must be 1 to 1024 characters"),
        (Some(&*large), "it must be 1 to 1024 characters"),
    ] {
        let mut contents = vec![("o.toml", &*text)];
        contents.extend(secret.map(|secret| ("secret", secret)));
        let files = Files::new(&contents);
        let faults = check_file(&files.path("o.toml")).unwrap_err();
        let lines = files.lines(&faults);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.contains("providers.client_secret_file") && line.contains(expected), "{line}");
        assert!(secret.is_none_or(|secret| secret.len() < 5 || !line.contains(secret)), "{line}");
    }
}
