//! The sign-ins that an organization file declares: providers of single sign-on for members, and trusted issuers of
//! identity tokens for jobs, with their rules.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::document::Document;
use super::fault::Fault;
use crate::forms::{
    Content, Element, Form, Integer, List, Map, MemberForm, Name, Object, Reader, Schemas, form, new_texts,
    rule_schema, texts,
};
use accounts::identities::{
    CLAIMS_MAX, Pattern, RULES_MAX, Rule, TOKEN_SECONDS_DEFAULT, TOKEN_SECONDS_MAX, TOKEN_SECONDS_MIN, TrustedIssuer,
};
use accounts::sso::{self, ClientSecret, GROUPS_CLAIM, GroupRole, NAME_CLAIM, Provider};
use domain::{CharClass, Identifier, Malformed, Role, TextRule};

/// One role for each of many small teams.
const ROLES_MAX: usize = 1_000;
/// Enough for the standard scopes and some of the provider's own.
const SCOPES_MAX: usize = 20;
/// The scopes for the name and the e-mail address.
const SCOPES_DEFAULT: [&str; 2] = ["profile", "email"];
/// Longer than the secrets of providers. A wrong path (a device, an image) is refused early.
const SECRET_BYTES_MAX: u64 = 1024;

const NAME: TextRule =
    TextRule::of(1..=255, CharClass::VISIBLE, "must be 1 to 255 visible ASCII characters without spaces");
const SCOPE: TextRule =
    TextRule::of(1..=100, CharClass::VISIBLE, "must be 1 to 100 visible ASCII characters without spaces");
const CLAIM: TextRule =
    TextRule::of(1..=255, CharClass::NO_CONTROL, "must be 1 to 255 characters, without control characters");
const SECRET: TextRule =
    TextRule::of(1..=SECRET_BYTES_MAX as usize, CharClass::NO_CONTROL, "must be 1 to 1024 characters on one line");
const PATH: TextRule =
    TextRule::of(1..=4096, CharClass::NO_CONTROL, "must be a path of 1 to 4096 characters, without control characters");

new_texts! {
    ClientId: by NAME;
    Audience: by NAME;
    Scope: by SCOPE;
    Claim: by CLAIM;
    SecretText: by SECRET;
    SecretPath: by PATH;
}

pub(super) struct Issuer(String);
pub(super) struct ClaimPattern(Pattern);
type TokenSeconds = Integer<TOKEN_SECONDS_MIN, TOKEN_SECONDS_MAX>;

texts! {
    Issuer: |text: &str| sso::check_issuer(text).map(|()| Self(text.to_owned())), rule_schema(&NAME);
}

form! {
    pub(super) struct ProviderForm {
        required id: Identifier,
        optional name: Name,
        required issuer: Issuer,
        required client_id: ClientId,
        optional client_secret: SecretText,
        optional client_secret_file: SecretPath,
        optional scopes: List<Scope, 0, SCOPES_MAX>,
        optional groups_claim: Claim,
        optional name_claim: Claim,
        optional(List::default()) roles: List<GroupRoleForm, 0, ROLES_MAX>,
        optional default_role: Role,
    }
    unique id;
    check check_provider;
}

form! {
    pub(super) struct GroupRoleForm {
        required group: Claim,
        required role: Role,
    }
    unique group;
}

fn check_provider(object: &Object<'_>, form: Option<&ProviderForm>, reader: &mut Reader) {
    if object.has("client_secret") && object.has("client_secret_file") {
        reader.field_fault(object, "client_secret", "must not be combined with `client_secret_file`");
    }
    if form.is_some_and(|form| form.roles.0.is_empty() && form.default_role.is_none()) {
        let message = "must have at least one entry, or `default_role` be set: otherwise nobody can sign in";
        reader.field_fault(object, "roles", message);
    }
}

/// The providers of a file; `None` if a secret in a separate file cannot be read.
pub(super) fn providers(
    forms: Vec<ProviderForm>,
    root: &Object<'_>,
    document: &Document,
    faults: &mut Vec<Fault>,
) -> Option<Vec<Provider>> {
    let tables = match root.get("providers").map(|element| &element.content) {
        Some(Content::Array(tables)) => tables.as_slice(),
        Some(_) | None => &[],
    };
    let read = |(form, table): (ProviderForm, &Element<'_>)| {
        let path = form.client_secret_file.as_ref().map(|SecretPath(path)| document.directory().join(&**path));
        let in_file = path.map(|path| read_secret(&path).map_err(|reason| (path, reason))).transpose();
        let report = |(path, reason): (PathBuf, String)| {
            let message = format!("providers.client_secret_file: cannot read `{}`: {reason}", path.display());
            faults.push(Fault::new(document.line(table.at), message));
        };
        Some(provider(form, in_file.map_err(report).ok()?))
    };
    // Reads all secrets before returning the first failure, so that every fault is reported.
    let read: Vec<_> = forms.into_iter().zip(tables).map(read).collect();
    read.into_iter().collect()
}

fn provider(form: ProviderForm, in_file: Option<ClientSecret>) -> Provider {
    let scopes = form.scopes.map_or_else(
        || SCOPES_DEFAULT.map(str::to_owned).to_vec(),
        |scopes| scopes.0.iter().map(|Scope(scope)| scope.to_string()).collect(),
    );
    Provider {
        name: form.name.map_or_else(|| form.id.to_string(), |name| name.0.to_string()),
        id: form.id,
        issuer: form.issuer.0,
        client_id: form.client_id.0.to_string(),
        client_secret: form.client_secret.map(|SecretText(secret)| ClientSecret::new(&secret)).or(in_file),
        scopes,
        groups_claim: form.groups_claim.map_or_else(|| GROUPS_CLAIM.to_owned(), |Claim(claim)| claim.to_string()),
        name_claim: form.name_claim.map_or_else(|| NAME_CLAIM.to_owned(), |Claim(claim)| claim.to_string()),
        roles: form
            .roles
            .0
            .into_iter()
            .map(|entry| GroupRole { group: entry.group.0.to_string(), role: entry.role })
            .collect(),
        default_role: form.default_role,
    }
}

/// `Err` is the end of a sentence that names the file. Removes the line break that editors add at the end.
fn read_secret(path: &Path) -> Result<ClientSecret, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| error.to_string())?;
    let secret = text.trim_end_matches(['\r', '\n']);
    SECRET.check(secret).map_err(|malformed| format!("it {malformed}"))?;
    Ok(ClientSecret::new(secret))
}

/// Claims of CI systems may be booleans or numbers, so patterns may be, too.
impl Form for ClaimPattern {
    fn read(element: &Element<'_>, reader: &mut Reader) -> Option<Self> {
        let text = match &element.content {
            Content::Text(text) => text.to_string(),
            Content::Number(number) => number.to_string(),
            Content::Boolean(value) => value.to_string(),
            Content::Null | Content::Array(_) | Content::Object(_) | Content::Other(_) => {
                reader.mismatch(element, "a string, a number or a boolean");
                return None;
            }
        };
        let report = |malformed: Malformed| reader.fault(element.at, malformed.to_string());
        Pattern::parse(&text).map(Self).map_err(report).ok()
    }

    fn schema(_: &mut Schemas) -> Value {
        json!({ "type": ["string", "number", "boolean"] })
    }
}

form! {
    pub(super) struct IdentityForm {
        required issuer: Issuer,
        required audience: Audience,
        optional jwks_url: Issuer,
        optional(TokenSeconds::new(TOKEN_SECONDS_DEFAULT)) token_seconds: TokenSeconds,
        required rules: List<RuleForm, 1, RULES_MAX>,
    }
    unique issuer;
}

form! {
    pub(super) struct RuleForm {
        required claims: Map<Claim, ClaimPattern, CLAIMS_MAX>,
        required role: Role,
        required name: Identifier,
    }
    check check_rule;
}

/// Refuses a rule that matches everything: many issuers, such as GitHub's, are open to everybody, and all would be
/// admitted.
fn check_rule(object: &Object<'_>, form: Option<&RuleForm>, reader: &mut Reader) {
    if form.is_some_and(|form| form.claims.0.values().all(|ClaimPattern(pattern)| pattern.is_of_anything())) {
        let message = "must have at least one claim that is not just `*`: otherwise every job of this issuer matches";
        reader.field_fault(object, "claims", message);
    }
}

/// Rules may share a member name only with the same role: otherwise a job would get the role of a later job. The name of
/// a member of the file is reserved for that person.
pub(super) fn check_rule_names(
    object: &Object<'_>,
    identities: &[IdentityForm],
    members: &[MemberForm],
    reader: &mut Reader,
) {
    let mut roles: HashMap<&Identifier, Role> = HashMap::new();
    for rule in identities.iter().flat_map(|identity| &identity.rules.0) {
        if members.iter().any(|member| member.name == rule.name) {
            let message = format!("must not have a rule with the name `{}`, which is that of a member", rule.name);
            reader.field_fault(object, "identities", message);
        } else if roles.insert(&rule.name, rule.role).is_some_and(|role| role != rule.role) {
            let message = format!("must not have rules with the name `{}` and different roles", rule.name);
            reader.field_fault(object, "identities", message);
        }
    }
}

pub(super) fn trusted_issuer(form: IdentityForm) -> TrustedIssuer {
    let claim = |(Claim(name), ClaimPattern(pattern))| (name.to_string(), pattern);
    let rule = |form: RuleForm| Rule {
        claims: form.claims.0.into_iter().map(claim).collect(),
        role: form.role,
        name: form.name,
    };
    TrustedIssuer {
        issuer: form.issuer.0,
        audience: form.audience.0.to_string(),
        jwks_url: form.jwks_url.map(|Issuer(url)| url),
        token_seconds: form.token_seconds.get(),
        rules: form.rules.0.into_iter().map(rule).collect(),
    }
}
