//! Signing in and out with a browser, and changing the password of the signed-in member. For the dashboard only, so it
//! is not part of the API's description. The secrets of sign-ins and invitations appear only in cookies and links.

use actix_web::http::header::SET_COOKIE;
use serde::Serialize;
use serde_json::json;

use super::members::CallerOrganization;
use crate::forms::{Object, Reader, form, texts};
use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::body::{read_form, read_open_form};
use crate::http::call::Call;
use crate::http::codes::Code;
use crate::http::cookies;
use crate::http::dto::{Time, Written, view, written};
use crate::http::outcome::{done_within, read_within};
use crate::http::own_page::{self, Origin};
use crate::http::paging::Query;
use crate::http::problem::Problem;
use crate::http::request::RequestOrigin;
use accounts::auth::{AccountsError, Member, NewSignIn, OpenToken, Password, Permission, Proof, Token, Visitor};
use domain::{Identifier, Malformed, Timestamp, TokenId};
use events::Cause;
use http1::Response;

/// Advice for a change whose outcome is unknown.
const LOOK: &str = "sign in";
/// Longer than any password or token, so a longer text is refused and does not use the server's memory.
const GIVEN_MAX: usize = 1_024;

form! {
    /// The credentials of a sign-in.
    pub struct SignInForm as "SignInRequest" {
        /// The id of the organization.
        optional organization: Given,
        /// The name of the member.
        optional name: Given,
        optional password: Given,
        /// An API token, instead of the other fields.
        optional token: Given,
    }
    one_of [password, organization, name] [token];
    check check_sign_in;
}

form! {
    pub struct SignOutForm as "SignOutRequest" {
        /// Ends the sign-ins of all browsers.
        optional everywhere: bool,
    }
}

form! {
    pub struct PasswordForm as "PasswordRequest" {
        /// The current password, required if the member has one.
        optional current_password: Given,
        required new_password: Password,
    }
}

form! {
    pub struct AcceptForm as "AcceptInvitationRequest" {
        required password: Password,
    }
}

/// A text that is only compared, and never shown.
pub struct Given(String);

texts! {
    Given: parse_given, json!({ "type": "string", "maxLength": GIVEN_MAX });
    Password: Self::parse, json!({ "type": "string", "minLength": Self::LENGTH.0, "maxLength": Self::LENGTH.1 });
}

fn parse_given(text: &str) -> Result<Given, Malformed> {
    if text.len() <= GIVEN_MAX { Ok(Given(text.to_owned())) } else { Err(Malformed("must be at most 1024 bytes")) }
}

fn check_sign_in(object: &Object<'_>, _: Option<&SignInForm>, reader: &mut Reader) {
    for name in ["organization", "name"] {
        if object.has("password") && !object.has(name) {
            reader.field_fault(object, name, "is required with `password`");
        }
    }
}

pub async fn sign_in(mut call: Call) -> Answered {
    let origin = begin_uncounted(&call)?;
    let SignInForm { organization, name, password, token } = read_open_form(&mut call).await?;
    let (accounts, now) = (&call.app.realm.accounts, (call.app.realm.clock)());
    let text = |given: Option<Given>| given.map(|Given(text)| text).unwrap_or_default();
    let (organization, name) = (text(organization), text(name));
    let by = match token {
        None => visitor(&call, &origin, &organization, &name)?,
        Some(_) => counted_stranger(&call)?,
    };
    let proven = match token {
        Some(Given(token)) => accounts.prove_token(&token, now),
        None => accounts.prove_password(&organization, &name, text(password), by).await,
    };
    let (member, proof) = proven.inspect_err(|_| note_refusal(&call, &organization))?;
    let had_password = matches!(proof, Proof::Password(_));
    let signing_in = accounts.sign_in(&member, new_sign_in(&call, proof), now);
    let open = done_within(call.app.node.answer_timeout, LOOK, signing_in).await?;
    tracing::info!(member = %member.id, name = %member.name, sign_in = %open.token.id, "signed in");
    let answer = signed_in(&call, &origin, &open);
    Ok(if had_password { knowing_browser(&call, &origin, &open.token, answer) } else { answer })
}

/// Idempotent: succeeds without a sign-in, too.
pub async fn sign_out(mut call: Call) -> Answered {
    Query::of(&call.request).finish()?;
    own_page::refuse_other_sites(&call)?;
    let origin = Origin::of(&call)?;
    let access = if cookies::sign_in_text(&call).is_some() { own_access(&call).ok() } else { None };
    let SignOutForm { everywhere } = read_open_form(&mut call).await?;
    if let Some(access) = access {
        let initiator = access.initiator();
        let cause = Cause::by(&initiator, (access.realm.clock)());
        let ending = access.realm.accounts.sign_out(&access.caller, everywhere.unwrap_or(false), cause);
        let ended = done_within(access.node.answer_timeout, LOOK, ending).await?;
        tracing::info!(name = %access.caller.person.name, ended, "signed out");
    }
    Ok(Response::no_content().with(SET_COOKIE, cookies::signed_out(&origin)))
}

pub async fn change_password(mut call: Call) -> Answered {
    Query::of(&call.request).finish()?;
    let mut access = own_access(&call)?;
    count_attempt(&call)?;
    let PasswordForm { current_password, new_password } = read_form(&mut call, &mut access).await?;
    let accounts = &access.realm.accounts;
    let current = match current_password {
        _ if !accounts.has_password(access.caller.person.id) => return Err(AccountsError::NoPassword.into()),
        None => return Err(Problem::invalid_field("currentPassword", "is required").into()),
        Some(Given(current)) => current,
    };
    let initiator = access.initiator();
    let cause = Cause::by(&initiator, (access.realm.clock)());
    let changing = async {
        let changed = accounts.change_password(&access.caller, current, new_password, cause).await;
        changed.map_err(|error| match error {
            // Not 401, which would mean that the browser is no longer signed in.
            AccountsError::InvalidCredentials => Problem::invalid_field("currentPassword", "is wrong"),
            AccountsError::PasswordIsName => {
                Problem::invalid_field("newPassword", "must be more than the member's name")
            }
            error => error.into(),
        })
    };
    done_within::<_, Problem>(access.node.answer_timeout, LOOK, changing).await?;
    tracing::info!(name = %access.caller.person.name, "password changed");
    // The new password invalidates the old known-browser cookie.
    let (answer, token) = (Response::no_content(), access.identity().await?.token);
    Ok(knowing_browser(&call, &Origin::of(&call)?, &token, answer))
}

pub async fn list(call: Call) -> Answered {
    Query::of(&call.request).finish()?;
    let access = own_access(&call)?;
    let reading = access.realm.accounts.sign_ins(access.caller.person.id, (access.realm.clock)());
    let found = read_within(access.node.answer_timeout, "sign-ins", reading).await?;
    let views: Vec<_> = found.iter().map(|sign_in| SignInView::new(sign_in, access.caller.token)).collect();
    Ok(answer::ok(views))
}

pub async fn end(call: Call) -> Answered {
    Query::of(&call.request).finish()?;
    let access = own_access(&call)?;
    let id: TokenId = call.id("signInId", Code::SignInNotFound)?;
    let initiator = access.initiator();
    let cause = Cause::by(&initiator, (access.realm.clock)());
    let ending = access.realm.accounts.end_sign_in(&access.caller, id, cause);
    done_within(access.node.answer_timeout, "list your sign-ins", ending).await?;
    tracing::info!(sign_in = %id, name = %access.caller.person.name, "sign-in ended");
    Ok(Response::no_content())
}

/// The ways to sign in to an organization. An unknown organization looks like one without providers.
pub async fn methods(call: Call) -> Answered {
    let mut query = Query::of(&call.request);
    let organization = query.text("organization", Identifier::parse);
    query.finish()?;
    let sso = call.app.realm.sso.get();
    let known = organization.iter().flat_map(|organization| sso.providers(organization.as_str()));
    let providers = known.map(|provider| ProviderView { id: provider.id.to_string(), name: provider.name.clone() });
    Ok(answer::ok(MethodsView { password: true, token: true, providers: providers.collect() }))
}

/// The member and organization that an invitation is for.
pub async fn view_invitation(call: Call) -> Answered {
    begin(&call)?;
    let realm = &call.app.realm;
    let finding = realm.accounts.invitation(call.segment("invitation"), (realm.clock)());
    let (member, expires_at) = read_within(call.app.node.answer_timeout, "members", finding).await??;
    let organization = realm.organization_name(&member.organization);
    Ok(answer::ok(InvitedView::new(&organization, &member, expires_at)))
}

pub async fn accept_invitation(mut call: Call) -> Answered {
    let origin = begin(&call)?;
    let AcceptForm { password } = read_open_form(&mut call).await?;
    let (accounts, now) = (&call.app.realm.accounts, (call.app.realm.clock)());
    let new = new_sign_in(&call, Proof::Invitation);
    let accepting = accounts.accept_invitation(call.segment("invitation"), password, new, now);
    let open = done_within(call.app.node.answer_timeout, LOOK, accepting).await?;
    tracing::info!(member = %open.token.user, sign_in = %open.token.id, "invitation accepted");
    let answer = signed_in(&call, &origin, &open);
    Ok(knowing_browser(&call, &origin, &open.token, answer))
}

/// The checks before a stranger may try to sign in.
fn begin(call: &Call) -> Result<Origin, Problem> {
    let origin = begin_uncounted(call)?;
    count_attempt(call)?;
    Ok(origin)
}

fn begin_uncounted(call: &Call) -> Result<Origin, Problem> {
    Query::of(&call.request).finish()?;
    own_page::refuse_other_sites(call)?;
    Origin::of(call)
}

/// Identifies the visitor who tries to sign in to an account, and counts the attempt.
fn visitor(call: &Call, origin: &Origin, organization: &str, name: &str) -> Result<Visitor, Problem> {
    let realm = &call.app.realm;
    let text = cookies::known_browser_of(call, origin, (organization, name));
    let account = Identifier::parse(organization).ok().zip(Identifier::parse(name).ok());
    let Some((text, account)) = text.zip(account) else { return counted_stranger(call) };
    match realm.accounts.known_browser(&account, text, (realm.clock)()) {
        Some(browser) => {
            realm.accounts.attempts.by_known_browser(&account).map_err(AccountsError::from)?;
            Ok(Visitor::KnownBrowser(browser))
        }
        None => counted_stranger(call),
    }
}

fn counted_stranger(call: &Call) -> Result<Visitor, Problem> {
    count_attempt(call)?;
    Ok(Visitor::Stranger(call.request.client_address()))
}

/// Adds a cookie that makes this a known browser, so that strangers' attempts on the account do not block it.
fn knowing_browser(call: &Call, origin: &Origin, token: &Token, answer: Response) -> Response {
    let realm = &call.app.realm;
    let Some(member) = realm.accounts.member(&token.organization, token.user) else { return answer };
    let Some(text) = realm.accounts.know_browser(&member, (realm.clock)()) else { return answer };
    let account = (member.organization.as_str(), member.name.as_str());
    answer.with(SET_COOKIE, cookies::known_browser(origin, account, &text))
}

fn count_attempt(call: &Call) -> Result<(), Problem> {
    let Some(address) = call.request.client_address() else { return Ok(()) };
    Ok(call.app.realm.accounts.attempts.by_address(address).map_err(AccountsError::from)?)
}

/// Access by a sign-in; tokens are refused.
fn own_access(call: &Call) -> Result<Access, Problem> {
    let access = Access::to_own_organization(call, Permission::Read)?;
    if access.caller.is_sign_in {
        return Ok(access);
    }
    Err(Code::SignInRequired.into())
}

pub fn new_sign_in(call: &Call, proof: Proof) -> NewSignIn {
    NewSignIn {
        proof,
        client: own_page::client(call),
        replaces: cookies::sign_in_text(call).map(str::to_owned),
        request: call.id.shared(),
    }
}

fn signed_in(call: &Call, origin: &Origin, open: &OpenToken) -> Response {
    let cookie = cookies::signed_in(origin, open, (call.app.realm.clock)());
    Response::no_content().with(SET_COOKIE, cookie)
}

/// Logs a refusal without the name, since people type passwords into that field.
fn note_refusal(call: &Call, organization: &str) {
    let address = call.request.client_address();
    call.app.node.refusals.note("sign-ins", address, || {
        let address = address.map(|address| address.to_string());
        let organization = Identifier::parse(organization).ok().map(|organization| organization.to_string());
        tracing::info!(bounded = true, organization, address, "a sign-in was refused");
    });
}

view! {
    /// A browser in which the member has signed in.
    pub struct SignInView<'a> of (sign_in: &'a Token, current: TokenId) {
        sign_in_id: written::TokenId = Written(sign_in.id),
        created_at: Time = Time(sign_in.created_at),
        last_used_at: Option<Time> = sign_in.last_used_at().map(Time),
        expires_at: Option<Time> = sign_in.expires_at.map(Time),
        /// Whether this is the sign-in of the request.
        current: bool = sign_in.id == current,
        client: &'a str = sign_in.client().unwrap_or_default(),
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

view! {
    /// The member and organization that an invitation is for.
    pub struct InvitedView<'a> of (organization_name: &'a str, member: &'a Member, expires_at: Timestamp) {
        organization: CallerOrganization<'a> = CallerOrganization::new(member.organization.as_str(), organization_name),
        name: &'a str = member.name.as_str(),
        expires_at: Time = Time(expires_at),
    }
}
