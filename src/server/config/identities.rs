//! The issuers of identity tokens that an organization file trusts, with its rules for them.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::forms::{
    Content, Element, Form, Integer, List, Map, MemberForm, Object, Reader, Schemas, form, rule_schema, texts,
};
use accounts::identities::{
    CLAIMS_MAX, Pattern, RULES_MAX, Rule, TOKEN_SECONDS_DEFAULT, TOKEN_SECONDS_MAX, TOKEN_SECONDS_MIN, TrustedIssuer,
};
use accounts::sso;
use domain::{CharClass, Identifier, Malformed, Role, TextRule};

const AUDIENCE: TextRule =
    TextRule::of(1..=255, CharClass::VISIBLE, "must be 1 to 255 visible ASCII characters without spaces");
const CLAIM: TextRule =
    TextRule::of(1..=255, CharClass::NO_CONTROL, "must be 1 to 255 characters, without control characters");

pub(super) struct Issuer(String);
pub(super) struct Audience(String);
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClaimName(String);
pub(super) struct ClaimPattern(Pattern);
type TokenSeconds = Integer<TOKEN_SECONDS_MIN, TOKEN_SECONDS_MAX>;

texts! {
    Issuer: |text: &str| sso::check_issuer(text).map(|()| Self(text.to_owned())), rule_schema(&AUDIENCE);
    Audience: |text: &str| AUDIENCE.check(text).map(|()| Self(text.to_owned())), rule_schema(&AUDIENCE);
    ClaimName: |text: &str| CLAIM.check(text).map(|()| Self(text.to_owned())), rule_schema(&CLAIM);
}

/// CIs have claims that are booleans or numbers: as such they can be written here too.
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
        let told = |malformed: Malformed| reader.fault(element.at, malformed.to_string());
        Pattern::parse(&text).map(Self).map_err(told).ok()
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
        required claims: Map<ClaimName, ClaimPattern, CLAIMS_MAX>,
        required role: Role,
        required name: Identifier,
    }
    check check_rule;
}

/// Many issuers, GitHub's for one, serve everybody: such a rule would let all of them in.
fn check_rule(object: &Object<'_>, form: Option<&RuleForm>, reader: &mut Reader) {
    if form.is_some_and(|form| form.claims.0.values().all(|ClaimPattern(pattern)| pattern.is_of_anything())) {
        let message = "must have at least one claim that is not just `*`: otherwise every job of this issuer matches";
        reader.field_fault(object, "claims", message);
    }
}

/// Two rules may give the same member, but not two roles: a job would get the role of another one that came later. A member
/// of the file is a person.
pub(super) fn check_names(
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

pub(super) fn trusted(form: IdentityForm) -> TrustedIssuer {
    let claim = |(ClaimName(name), ClaimPattern(pattern))| (name, pattern);
    let rule = |form: RuleForm| Rule {
        claims: form.claims.0.into_iter().map(claim).collect(),
        role: form.role,
        name: form.name,
    };
    TrustedIssuer {
        issuer: form.issuer.0,
        audience: form.audience.0,
        jwks_url: form.jwks_url.map(|Issuer(url)| url),
        token_seconds: form.token_seconds.get(),
        rules: form.rules.0.into_iter().map(rule).collect(),
    }
}
