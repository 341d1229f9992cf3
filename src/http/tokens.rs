//! API tokens: list, make, revoke.

use std::time::Duration;

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
/// Long enough for a disk that stalled to have caught up.
const STALLED_RETRY_SECONDS: u64 = 1;

pub async fn list(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let access = Access::to(&request, Permission::ManageTokens)?;
    let mut query = Query::of(&request);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let organization = &access.caller.organization;
    let listed = tokio::time::timeout(access.app.answer_timeout, access.app.accounts.tokens(organization)).await;
    let tokens = listed.map_err(|_| not_read_in_time())?;
    let offset = usize::try_from(slice.offset).unwrap_or(usize::MAX);
    let shown = tokens.iter().skip(offset).take(slice.limit as usize);
    let views = shown.map(|token| TokenView::new(token, |user| access.user_name(user))).collect();
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
    let creating = accounts.create_token_by(access.caller.person.id, new, now);
    let open = done_within(access.app.answer_timeout, creating).await?;
    tracing::info!(token = %open.token.id, by = %access.caller.person.name, "a token was made");
    let location = format!("/api/v1/organizations/{organization}/tokens/{}", open.token.id);
    Ok(answer::created(&location, OpenTokenView::new(&open, |user| access.user_name(user))))
}

pub async fn revoke(request: HttpRequest) -> Result<HttpResponse, Problem> {
    let access = Access::to(&request, Permission::ManageTokens)?;
    Query::of(&request).finish()?;
    let not_found = || Problem::new(Code::TokenNotFound, Code::TokenNotFound.meaning());
    let id: TokenId = segment(&request, "tokenId").parse().map_err(|_| not_found())?;
    let revoking = access.app.accounts.revoke(&access.caller.organization, id);
    if !done_within(access.app.answer_timeout, revoking).await? {
        return Err(not_found());
    }
    tracing::info!(token = %id, by = %access.caller.person.name, "a token was revoked");
    Ok(HttpResponse::NoContent().finish())
}

/// A disk that stalls must not keep the caller for ever. What was begun may still take effect.
async fn done_within<T, E>(limit: Duration, change: impl Future<Output = Result<T, E>>) -> Result<T, Problem>
where
    Problem: From<E>,
{
    let Ok(done) = tokio::time::timeout(limit, change).await else {
        tracing::error!("a change of tokens was not durable in time");
        let detail =
            "the change was not durable in time and may still take effect; list the tokens before you try again";
        return Err(Problem::new(Code::OutcomeUnknown, detail).retry_after(STALLED_RETRY_SECONDS));
    };
    Ok(done?)
}

/// The list waits for changes that are on their way to the disk.
fn not_read_in_time() -> Problem {
    tracing::error!("tokens were not listed in time: a change of them is not durable yet");
    let detail = "a change of the tokens still waits for the disk; try again after `Retry-After`";
    Problem::new(Code::Overloaded, detail).retry_after(STALLED_RETRY_SECONDS)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreError;

    #[actix_web::test]
    async fn a_change_that_the_disk_does_not_take_in_time_has_an_unknown_outcome() {
        let stalled = std::future::pending::<Result<(), StoreError>>();
        let outcome = done_within(Duration::from_millis(1), stalled).await;
        assert_eq!(outcome.map_err(|problem| problem.code()), Err(Code::OutcomeUnknown));
    }

    #[actix_web::test]
    async fn a_change_in_time_is_answered_as_it_went() {
        let limit = Duration::from_secs(60);
        let made = done_within(limit, std::future::ready(Ok::<_, StoreError>(7))).await;
        assert_eq!(made.map_err(|problem| problem.code()), Ok(7));
        let refused = done_within(limit, std::future::ready(Err::<(), _>(StoreError::Overloaded))).await;
        assert_eq!(refused.map_err(|problem| problem.code()), Err(Code::Overloaded));
    }
}
