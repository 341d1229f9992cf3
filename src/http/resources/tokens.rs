//! API tokens: list, make, revoke.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::{AccountsError, NewToken, OpenToken, Permission, Token};
use crate::domain::{Identifier, Malformed, NAME, Timestamp, TokenId, UserId};
use crate::events::Cause;
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::call::Call;
use crate::http::dto::{OpenTokenView, TokenView};
use crate::http::idempotent::{self, Begun};
use crate::http::outcome::{done_within, read_within};
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::{FieldError, Problem};
use crate::idempotency::Pending;
use crate::store::Batch;

/// What to do where the outcome of a change is not known.
const LOOK: &str = "list the tokens";
const NO_MEMBER: Malformed = Malformed("is no member of this organization");

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageTokens)?;
    let mut query = Query::of(&call.request);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let organization = &access.caller.organization;
    let list = read_within(access.node.answer_timeout, "tokens", access.realm.accounts.tokens(organization)).await?;
    let offset = usize::try_from(slice.offset).unwrap_or(usize::MAX);
    let shown = list.tokens.iter().skip(offset).take(slice.limit as usize);
    let views =
        shown.map(|token| TokenView::new(token, |user| list.name_of(user).map(Identifier::to_string))).collect();
    Ok(paging::slice(&call.request, slice, list.tokens.len() as u64, views))
}

/// A token has the permissions of the user it stands for: the caller, or the member that `userId` or `user` names.
pub async fn create(mut call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageTokens)?;
    let Begun { body, pending } = idempotent::begin(&mut call, &access).await?;
    let now = (access.realm.clock)();
    let (accounts, organization) = (&access.realm.accounts, &access.caller.organization);
    let mut fields = body.fields()?;
    let name = fields.required_text("name", parse_name);
    let expires_at = fields.nullable_text("expiresAt", |text| parse_expiry(text, now));
    let by_id = fields.text("userId", |text| {
        let id = text.parse::<UserId>()?;
        accounts.member(organization, id).map(|_| id).ok_or(NO_MEMBER)
    });
    let by_name =
        fields.text("user", |name| accounts.member_named(organization, name).map(|member| member.id).ok_or(NO_MEMBER));
    if by_id.is_some() && by_name.is_some() {
        fields.wrong("user", "is left out where userId is given");
    }
    fields.finish()?;
    let name = name.ok_or_else(|| Problem::invalid_request(Vec::new()))?;

    let user = by_id.or(by_name).unwrap_or(access.caller.person.id);
    let new = NewToken { organization: organization.clone(), user, name, expires_at };
    let open = done_within(access.node.answer_timeout, LOOK, make(access.clone(), new, pending, now)).await?;
    tracing::info!(token = %open.token.id, by = %access.caller.person.name, "a token was made");
    let view = OpenTokenView::new(&open, |user| access.user_name(user));
    Ok(idempotent::response(idempotent::answer(StatusCode::CREATED, Some(url(&open.token)), view)))
}

/// Makes the token and keeps the answer, in a task of its own: the key must stay in flight until both are durable, also
/// where the caller has gone or has waited long enough.
async fn make(access: Access, new: NewToken, pending: Option<Pending>, now: Timestamp) -> Result<OpenToken, Problem> {
    let making = actix_web::rt::spawn(async move {
        let keep = |token: &Token, batch: &mut Batch| {
            pending.map(|pending| {
                let view = KeptTokenView { view: TokenView::new(token, |user| access.user_name(user)), token: None };
                pending.keep(batch, &idempotent::answer(StatusCode::CREATED, Some(url(token)), view), now)
            })
        };
        access.realm.accounts.create_token(new, Cause::by(&access.agent(), now), keep).await
    });
    making.await.map_err(Problem::internal)?.map_err(|error| {
        if !matches!(error, AccountsError::MemberNotFound) {
            return error.into();
        }
        // Who was a member when the fields were read has been removed since.
        let fault = FieldError { field: "user".to_owned(), message: NO_MEMBER.to_string() };
        Problem::invalid_request(vec![fault])
    })
}

fn url(token: &Token) -> String {
    format!("/api/v1/organizations/{}/tokens/{}", token.organization, token.id)
}

/// The answer that made a token, as it is kept for retries.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReplayedToken)]
pub struct KeptTokenView<'a> {
    #[serde(flatten)]
    view: TokenView<'a>,
    /// Always null: the token itself was in the first answer, and is kept nowhere.
    #[schema(required)]
    token: Option<String>,
}

pub async fn revoke(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageTokens)?;
    Query::of(&call.request).finish()?;
    let id: TokenId = call.segment("tokenId").parse().map_err(|_| AccountsError::TokenNotFound)?;
    let agent = access.agent();
    let cause = Cause::by(&agent, (access.realm.clock)());
    let revoking = access.realm.accounts.revoke(&access.caller.organization, id, cause);
    done_within(access.node.answer_timeout, LOOK, revoking).await?;
    tracing::info!(token = %id, by = %access.caller.person.name, "a token was revoked");
    Ok(HttpResponse::NoContent().finish())
}

impl Access {
    fn user_name(&self, user: UserId) -> Option<String> {
        let member = self.realm.accounts.member(&self.caller.organization, user)?;
        Some(member.name.as_str().to_owned())
    }
}

fn parse_name(text: &str) -> Result<String, Malformed> {
    NAME.check(text).map(|()| text.to_owned())
}

fn parse_expiry(text: &str, now: Timestamp) -> Result<Timestamp, Malformed> {
    let time: jiff::Timestamp = text.parse().map_err(|_| Malformed("is an RFC 3339 time like 2027-01-31T00:00:00Z"))?;
    let time = Timestamp::from_millis(time.as_millisecond());
    if time > now { Ok(time) } else { Err(Malformed("is in the future")) }
}
