//! API tokens: list, create, revoke. Members manage their own tokens, admins all. The text of a token appears only in
//! the response that created it.

use actix_web::http::StatusCode;
use serde_json::json;

use crate::forms::{Name, form, texts};
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::call::Call;
use crate::http::codes::Code;
use crate::http::dto::{Time, Written, view, written};
use crate::http::idempotent;
use crate::http::outcome::{done_in_task, done_within, read_within};
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use accounts::auth::{AccountsError, NewToken, OpenToken, Permission, Token};
use domain::{Identifier, Malformed, Timestamp, TokenId, UserId};
use events::Cause;
use http1::Response;
use locks::idempotency::{Pending, StoredAnswer};

/// Advice for a change whose outcome is unknown.
const LOOK: &str = "list the tokens";

form! {
    /// A new token.
    #[schema("examples": [{ "name": "ci", "user": "ana" }])]
    pub struct TokenForm as "TokenRequest" {
        /// The name of the token: its purpose.
        #[schema("examples": ["ci"])]
        required name: Name,
        /// The name of the member whose permissions the token gets; the caller if left out. Only admins can name
        /// others.
        optional user: MemberName,
        /// The id of that member, instead of the name.
        optional user_id: UserId,
        /// When the token expires; never if left out. Must be in the future. If the token that sends the request
        /// expires earlier, the new token expires with it, and the answer has the time that applies. Revoking that
        /// token revokes the new one, too.
        nullable expires_at: Expiry,
    }
}

/// The name of a member. Not checked, since no member has an invalid name.
pub struct MemberName(String);
pub struct Expiry(Timestamp);

texts! {
    MemberName: |text: &str| Ok(Self(text.to_owned())), json!({ "type": "string", "examples": ["ana"] });
    UserId: str::parse, json!({ "type": "string", "examples": [Self::EXAMPLE] });
    Expiry: parse_expiry, json!({ "type": "string", "format": "date-time", "examples": ["2099-01-31T00:00:00Z"] });
}

fn no_member(field: &str) -> Problem {
    Problem::invalid_field(field, "must be a member of this organization")
}

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let mine = query.flag("mine");
    let slice = Slice::take(&mut query);
    query.finish()?;
    let organization = &access.caller.organization;
    let reading = access.realm.accounts.tokens(organization);
    let mut list = read_within(access.node.answer_timeout, "tokens", reading).await?;
    if mine || !access.may(Permission::ManageTokens) {
        list.tokens.retain(|token| token.user == access.caller.person.id);
    }
    Ok(paging::part(&call.request, slice, &list.tokens, |token| {
        TokenView::new(token, |user| list.name_of(user).map(Identifier::to_string))
    }))
}

/// A token has the permissions of its user: the caller, or the member that `userId` or `user` names.
pub async fn create(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::Read)?;
    let (form, pending) = idempotent::begin(&mut call, &mut access).await?;
    let TokenForm { name, user, user_id, expires_at } = form;
    let now = (access.realm.clock)();
    let (accounts, organization) = (&access.realm.accounts, &access.caller.organization);
    let names_caller = user_id.is_none_or(|id| id == access.caller.person.id)
        && user.as_ref().is_none_or(|MemberName(name)| **name == *access.caller.person.name);
    if !names_caller {
        access.require(Permission::ManageTokens)?;
    }
    let expires_at = expires_at.map(|Expiry(time)| time);
    if expires_at.is_some_and(|time| time <= now) {
        return Err(Problem::invalid_field("expiresAt", "must be in the future").into());
    }
    let user = match (user_id, user) {
        (Some(_), Some(_)) => return Err(Problem::invalid_field("user", "must be left out if userId is given").into()),
        (Some(id), None) => accounts.member(organization, id).ok_or_else(|| no_member("userId"))?.id,
        (None, Some(MemberName(name))) => {
            accounts.member_named(organization, &name).ok_or_else(|| no_member("user"))?.id
        }
        (None, None) => access.caller.person.id,
    };
    let new = NewToken { organization: organization.clone(), user, name: name.0.to_string(), expires_at };
    let open = done_in_task(access.node.answer_timeout, LOOK, make(access.clone(), new, pending, now)).await?;
    tracing::info!(token = %open.token.id, by = %access.caller.person.name, "token created");
    Ok(idempotent::response(created(&access, &open.token, Some(open.text.reveal()))))
}

async fn make(access: Access, new: NewToken, pending: Option<Pending>, now: Timestamp) -> Result<OpenToken, Problem> {
    let keep = idempotent::keep(pending, || now, |token: &Token| created(&access, token, None));
    let made = access.realm.accounts.create_token(new, Cause::by(&access.initiator(), now), keep).await;
    // The member may have been removed after the fields were checked.
    made.map_err(|error| if matches!(error, AccountsError::MemberNotFound) { no_member("user") } else { error.into() })
}

/// The response. The text is not stored, so a retry does not get it.
fn created(access: &Access, token: &Token, text: Option<&str>) -> StoredAnswer {
    let url = format!("/api/v1/organizations/{}/tokens/{}", token.organization, token.id);
    let view = TokenWithSecret::new(TokenView::new(token, |user| access.user_name(user)), text);
    idempotent::answer(StatusCode::CREATED, Some(url), view)
}

pub async fn revoke(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    Query::of(&call.request).finish()?;
    let id: TokenId = call.id("tokenId", Code::TokenNotFound)?;
    let initiator = access.initiator();
    let cause = Cause::by(&initiator, (access.realm.clock)());
    let only_of = (!access.may(Permission::ManageTokens)).then_some(access.caller.person.id);
    let revoking = access.realm.accounts.revoke(&access.caller.organization, id, only_of, cause);
    done_within(access.node.answer_timeout, LOOK, revoking).await?;
    tracing::info!(token = %id, by = %access.caller.person.name, "token revoked");
    Ok(Response::no_content())
}

impl Access {
    fn user_name(&self, user: UserId) -> Option<String> {
        let member = self.realm.accounts.member(&self.caller.organization, user)?;
        Some(member.name.as_str().to_owned())
    }
}

fn parse_expiry(text: &str) -> Result<Expiry, Malformed> {
    let time: jiff::Timestamp =
        text.parse().map_err(|_| Malformed("must be an RFC 3339 time such as 2027-01-31T00:00:00Z"))?;
    Ok(Expiry(Timestamp::from_millis(time.as_millisecond())))
}

view! {
    /// An API token, without its text.
    pub struct TokenView<'a> as Token of (token: &'a Token, name_of: impl Fn(UserId) -> Option<String>)
    let person = |id| TokenUser::new(id, name_of(id));
    {
        token_id: written::TokenId = Written(token.id),
        /// The name of the token: its purpose.
        #[schema(example = "ci")]
        name: &'a str = &token.name,
        /// The member whose permissions the token has.
        user: TokenUser = person(token.user),
        /// The member who created the token.
        created_by: TokenUser = person(token.created_by),
        /// The end of the token's text, to recognise it.
        #[schema(example = "x7Qd")]
        last_four: &'a str = &token.last_four,
        /// When the token was created.
        created_at: Time = Time(token.created_at),
        /// When the token expires; null: never on its own.
        expires_at: Option<Time> = token.expires_at.map(Time),
        /// When the token was last used, to about a minute; null: never.
        last_used_at: Option<Time> = token.last_used_at().map(Time),
    }
}

view! {
    /// A present or former member; the name of a former one is null.
    pub struct TokenUser of (id: UserId, name: Option<String>) {
        user_id: written::UserId = Written(id),
        /// The member's name; null for a former member.
        #[schema(example = "ana")]
        name: Option<String>,
    }
}

view! {
    /// A new token, with its text.
    pub struct TokenWithSecret<'a> as NewToken of (view: TokenView<'a>, token: Option<&'a str>) {
        #[serde(flatten)]
        view: TokenView<'a>,
        /// The text of the token. Shown only once: a retry with the same `Idempotency-Key` gets null.
        #[schema(example = "lk_3mZ0QhV7tYw2Rk9JxUa4SbLc8PdEfN1o5GqB")]
        token: Option<&'a str>,
    }
}
