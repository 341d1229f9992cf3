//! Providers of single sign-on and trusted issuers of identity tokens in an organization file.

use super::Files;
use super::organizations::{check, sample_with_its_examples};
use crate::config::check_file;
use accounts::identities::{Pattern, Rule};
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

const ISSUER: &str = "[[identities]]\nissuer = 'https://ci.example'\naudience = 'lockkeeper'\n";

#[test]
fn what_an_issuer_leaves_out_has_its_default_and_claims_may_be_no_texts() {
    let text = format!(
        "{ISSUER}rules = [{{ claims = {{ ref_protected = true, id = 7, repository = 'acme/*' }}, role = 'developer', \
         name = 'ci' }}]\n"
    );
    let trusted = check(&text).unwrap().identities.remove(0);
    assert_eq!((trusted.issuer.as_str(), trusted.audience.as_str()), ("https://ci.example", "lockkeeper"));
    assert_eq!((trusted.jwks_url, trusted.token_seconds), (None, 3_600));
    let pattern = |name: &str, pattern: &str| (name.to_owned(), Pattern::parse(pattern).unwrap());
    let claims = vec![pattern("id", "7"), pattern("ref_protected", "true"), pattern("repository", "acme/*")];
    assert_eq!(trusted.rules, [Rule { claims, role: Role::Developer, name: domain::Identifier::parse("ci").unwrap() }]);
}

#[test]
fn the_sample_explains_every_key_of_an_issuer() {
    let text = sample_with_its_examples().join("\n");
    let files = Files::new(&[("acme.toml", &text), ("acme-login.secret", "s3cret")]);
    let acme = check_file(&files.path("acme.toml")).unwrap().organizations.remove(0).1;
    let trusted = &acme.identities[0];
    assert_eq!(trusted.issuer, "https://token.actions.githubusercontent.com");
    assert_eq!((trusted.token_seconds, trusted.jwks_url.is_some(), trusted.rules.len()), (1_800, true, 2));
}

#[test]
fn all_faults_of_issuers_and_rules_are_told() {
    let rule = "{ claims = { a = 'b' }, role = 'viewer', name = 'ci' }";
    let text = format!(
        "[[identities]]\nissuer = 'http://ci.example'\naudience = ''\njwks_url = 'ftp://x'\ntoken_seconds = 59\nrules = []\n\
         [[identities]]\nissuer = 'https://ci.example'\naudience = 'a'\n\
         rules = [{{ claims = {{}}, role = 'viewer', name = 'ci' }},\n\
         {{ claims = {{ sub = '*', x = '**' }}, role = 'boss', name = 'c i' }},\n\
         {{ claims = {{ sub = '' }}, role = 'viewer', name = 'x' }}, {{ claims = {{ sub = [1] }} }}]\n\
         [[identities]]\nissuer = 'https://ci.example'\naudience = 'a'\ntoken_seconds = 43201\nrules = [{rule}]\n"
    );
    let url = "must be an https URL without query and fragment, or http on a loopback address";
    let visible = "must be 1 to 255 visible ASCII characters without spaces";
    let just_star = "must have at least one claim that is not just `*`: otherwise every job of this issuer matches";
    assert_eq!(
        check(&text).unwrap_err(),
        [
            format!("o.toml:7: identities.issuer {url}"),
            format!("o.toml:8: identities.audience {visible}"),
            format!("o.toml:9: identities.jwks_url {url}"),
            "o.toml:10: identities.token_seconds must be an integer from 60 to 43200, got 59".to_owned(),
            "o.toml:11: identities.rules must have at least 1 entry, got 0".to_owned(),
            format!("o.toml:15: identities.rules.claims {just_star}"),
            "o.toml:16: identities.rules.role must be one of viewer, developer, maintainer, admin".to_owned(),
            "o.toml:16: identities.rules.name must be 1 to 63 letters, digits, '.', '_' or '-', starting with a letter or \
             digit"
                .to_owned(),
            "o.toml:17: identities.rules.claims.sub must be 1 to 1024 bytes, without control characters".to_owned(),
            "o.toml:17: identities.rules.claims.sub must be a string, a number or a boolean, got an array".to_owned(),
            "o.toml:17: identities.rules.role is required".to_owned(),
            "o.toml:17: identities.rules.name is required".to_owned(),
            "o.toml:19: identities.issuer `https://ci.example` is used twice; the first is on line 13".to_owned(),
            "o.toml:21: identities.token_seconds must be an integer from 60 to 43200, got 43201".to_owned(),
        ]
    );
}

#[test]
fn a_rule_gives_no_name_of_a_member_and_a_name_has_one_role() {
    let rules = |second: &str| {
        format!(
            "{ISSUER}rules = [{{ claims = {{ a = 'b' }}, role = 'viewer', name = 'ci' }},\n\
             {{ claims = {{ a = 'c' }}, {second} }}]\n"
        )
    };
    assert!(check(&rules("role = 'viewer', name = 'ci'")).is_ok());
    assert_eq!(
        check(&rules("role = 'admin', name = 'ci'")).unwrap_err(),
        ["o.toml:6: identities must not have rules with the name `ci` and different roles"]
    );
    assert_eq!(
        check(&rules("role = 'admin', name = 'root'")).unwrap_err(),
        ["o.toml:6: identities must not have a rule with the name `root`, which is that of a member"]
    );
}
