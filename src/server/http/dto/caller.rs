//! Who the caller is: organization, member, role and token.

use serde::Serialize;
use utoipa::ToSchema;

use super::ids::{TokenId, UserId, Written};
use super::member::email_of;
use super::statuses::{Named, Role};
use super::values::Time;
use accounts::auth::Identity;

/// Who sends a request, by its token or its sign-in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Caller)]
pub struct CallerView<'a> {
    /// The one organization that the token gives access to.
    organization: CallerOrganization<'a>,
    /// The member whose permissions the token has.
    user: CallerUser<'a>,
    /// The member's role now.
    role: Role,
    /// The token; null for a browser that has signed in.
    token: Option<CallerToken<'a>>,
}

/// The organization of a caller.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallerOrganization<'a> {
    /// As in the paths of the API.
    #[schema(example = "acme")]
    id: &'a str,
    /// For people.
    #[schema(example = "Acme")]
    name: &'a str,
}

/// The member behind a caller.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallerUser<'a> {
    user_id: UserId,
    /// The member's name.
    #[schema(example = "ana")]
    name: &'a str,
    /// Null if none is known.
    #[schema(example = "ana@acme.example")]
    email: Option<&'a str>,
}

/// The token of a caller.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallerToken<'a> {
    /// As in the list of tokens, where those of jobs are not listed.
    token_id: TokenId,
    /// What it was called when it was created; for a job, its subject in the words of its CI.
    #[schema(example = "ci")]
    name: &'a str,
    /// When it stops working; null if it does not expire.
    #[schema(example = "2027-01-31T00:00:00.000Z")]
    expires_at: Option<Time>,
}

impl<'a> CallerOrganization<'a> {
    pub fn new(id: &'a str, name: &'a str) -> Self {
        Self { id, name }
    }
}

impl<'a> CallerView<'a> {
    pub fn new(organization_name: &'a str, identity: &'a Identity) -> Self {
        let Identity { member, token } = identity;
        Self {
            organization: CallerOrganization::new(member.organization.as_str(), organization_name),
            user: CallerUser { user_id: Written(member.id), name: member.name.as_str(), email: email_of(member) },
            role: Named(member.role),
            token: (!token.is_sign_in()).then(|| CallerToken {
                token_id: Written(token.id),
                name: &token.name,
                expires_at: token.expires_at.map(Time),
            }),
        }
    }
}
