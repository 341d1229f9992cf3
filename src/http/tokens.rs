//! API tokens: list, make, revoke.

use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse};

use super::access::{Access, segment};
use super::body::read_fields;
use super::codes::Code;
use super::dto::{OpenTokenView, TokenView};
use super::paging::{Query, Slice};
use super::problem::Problem;
use super::{answer, paging};
use crate::auth::{NewToken, Permission, TokenId};
use crate::domain::{Malformed, Timestamp, UserId};

const NAME_MAX: usize = 100;

pub async fn list(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let access = Access::to(&request, Permission::ManageTokens)?;
    let mut query = Query::of(&request);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let organization = &access.caller.organization;
    let tokens = access.app.accounts.tokens(organization);
    let offset = usize::try_from(slice.offset).unwrap_or(usize::MAX);
    let shown: Vec<_> = tokens.iter().skip(offset).take(slice.limit as usize).collect();
    let names: Vec<_> = shown.iter().map(|token| access.user_name(token.user)).collect();
    let views = shown.iter().zip(&names).map(|(token, name)| TokenView::new(token, name.as_deref())).collect();
    Ok(paging::slice(&request, slice, tokens.len() as u64, views))
}

/// A token has the permissions of the user it stands for: the caller, or the member that `userId` or `user` names.
pub async fn create(request: HttpRequest, payload: Payload) -> Result<HttpResponse, Problem> {
    let access = Access::to(&request, Permission::ManageTokens)?;
    Query::of(&request).finish()?;
    let now = (access.app.clock)();
    let (accounts, organization) = (&access.app.accounts, &access.caller.organization);
    let mut fields = read_fields(&request, &mut payload.into_inner(), &access.app).await?;
    let name = fields.required_text("name", parse_name);
    let expires_at = fields.nullable_text("expiresAt", |text| parse_expiry(text, now));
    let by_id = fields.text("userId", |text| {
        let id = text.parse::<UserId>()?;
        accounts.member(organization, id).map(|_| id).ok_or(Malformed("is no member of this organization"))
    });
    let by_name = fields.text("user", |name| {
        accounts.member_named(organization, name).ok_or(Malformed("is no member of this organization"))
    });
    if by_id.is_some() && by_name.is_some() {
        fields.wrong("user", "is left out where userId is given");
    }
    fields.finish()?;
    let name = name.ok_or_else(|| Problem::invalid_request(Vec::new()))?;

    let user = by_id.or(by_name).unwrap_or(access.caller.person.id);
    let new = NewToken { organization: organization.clone(), user, name, expires_at };
    let open = accounts.create_token(new, now).await?;
    tracing::info!(token = %open.token.id, by = %access.caller.person.name, "a token was made");
    let location = format!("/api/v1/organizations/{organization}/tokens/{}", open.token.id);
    Ok(answer::created(&location, OpenTokenView::new(&open, access.user_name(user).as_deref())))
}

pub async fn revoke(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let access = Access::to(&request, Permission::ManageTokens)?;
    Query::of(&request).finish()?;
    let not_found = || Problem::new(Code::TokenNotFound, Code::TokenNotFound.meaning());
    let id: TokenId = segment(&request, "tokenId").parse().map_err(|_| not_found())?;
    if !access.app.accounts.revoke(&access.caller.organization, id).await? {
        return Err(not_found());
    }
    tracing::info!(token = %id, by = %access.caller.person.name, "a token was revoked");
    Ok(HttpResponse::NoContent().finish())
}

impl Access {
    fn user_name(&self, user: UserId) -> Option<String> {
        let member = self.app.accounts.member(&self.caller.organization, user)?;
        Some(member.name.as_str().to_owned())
    }
}

fn parse_name(text: &str) -> Result<String, Malformed> {
    let sane = (1..=NAME_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    sane.then(|| text.to_owned()).ok_or(Malformed("is 1 to 100 characters without control characters"))
}

fn parse_expiry(text: &str, now: Timestamp) -> Result<Timestamp, Malformed> {
    let time: jiff::Timestamp = text.parse().map_err(|_| Malformed("is an RFC 3339 time like 2027-01-31T00:00:00Z"))?;
    let time = Timestamp::from_millis(time.as_millisecond());
    if time > now { Ok(time) } else { Err(Malformed("is in the future")) }
}
