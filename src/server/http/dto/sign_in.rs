//! Sign-ins and invitations, as pages show them. Their texts are only in cookies and links.

use serde::Serialize;
use utoipa::ToSchema;

use super::caller::CallerOrganization;
use super::ids::{TokenId, Written};
use super::values::Time;
use accounts::auth::{Member, Token};
use domain::Timestamp;

/// A browser that somebody has signed in with.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignInView<'a> {
    sign_in_id: TokenId,
    created_at: Time,
    last_used_at: Option<Time>,
    expires_at: Option<Time>,
    /// Whether it is the one that asks.
    current: bool,
    client: &'a str,
}

impl<'a> SignInView<'a> {
    pub fn new(sign_in: &'a Token, current: domain::TokenId) -> Self {
        Self {
            sign_in_id: Written(sign_in.id),
            created_at: Time(sign_in.created_at),
            last_used_at: sign_in.last_used_at().map(Time),
            expires_at: sign_in.expires_at.map(Time),
            current: sign_in.id == current,
            client: sign_in.origin().map_or("", |origin| &origin.client),
        }
    }
}

/// The ways to sign in to an organization.
#[derive(Debug, Serialize)]
pub struct MethodsView {
    pub password: bool,
    pub token: bool,
    pub providers: Vec<ProviderView>,
}

/// A provider of single sign-on.
#[derive(Debug, Serialize)]
pub struct ProviderView {
    pub id: String,
    pub name: String,
}

/// A new invitation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Invitation)]
pub struct InvitationView<'a> {
    /// A page on which the member chooses a password, once. It is not shown again: a retry with the same `Idempotency-Key`
    /// gets null.
    #[schema(example = "https://lock.example/invitation#lki_3mZ0QhV7tYw2Rk9JxUa4SbLc8PdEfN1o5GqB")]
    url: Option<&'a str>,
    /// When it stops working.
    expires_at: Time,
}

impl<'a> InvitationView<'a> {
    pub fn new(url: Option<&'a str>, expires_at: Timestamp) -> Self {
        Self { url, expires_at: Time(expires_at) }
    }
}

/// Whom an invitation is for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvitedView<'a> {
    organization: CallerOrganization<'a>,
    name: &'a str,
    expires_at: Time,
}

impl<'a> InvitedView<'a> {
    pub fn new(organization_name: &'a str, member: &'a Member, expires_at: Timestamp) -> Self {
        let organization = CallerOrganization::new(member.organization.as_str(), organization_name);
        Self { organization, name: member.name.as_str(), expires_at: Time(expires_at) }
    }
}
