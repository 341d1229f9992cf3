//! Single sign-on: the two addresses that lead a browser to a provider and back. Not part of the API: browsers open
//! them as pages, so failures lead to the sign-in page, which explains them.

use actix_web::http::StatusCode;
use actix_web::http::header::{ACCEPT, HeaderValue, LOCATION, SET_COOKIE};

use super::sign_in::new_sign_in;
use crate::http::answer::Answered;
use crate::http::call::Call;
use crate::http::codes::Code;
use crate::http::cookies;
use crate::http::outcome::done_within;
use crate::http::own_page::Origin;
use crate::http::paging::Query;
use crate::http::problem::Problem;
use crate::http::request::RequestOrigin;
use accounts::auth::{AccountsError, OpenToken, Proof, ProvidedPerson};
use accounts::sso::{Begun, Callback, Failure, ReturnPath};
use events::Cause;
use http1::Response;

/// The limit on a callback's parameters; providers add some of their own.
const PARAMETERS_MAX: usize = 32;
/// Advice for a sign-in whose outcome is unknown.
const LOOK: &str = "sign in again";

/// Redirects the browser to a provider.
pub async fn begin(call: Call) -> Answered {
    let mut query = Query::of(&call.request);
    let organization = query.one("organization");
    let return_path = query.text("return", ReturnPath::parse).unwrap_or_default();
    if organization.is_none() {
        query.wrong("organization", "is required");
    }
    query.finish()?;
    let organization = organization.unwrap_or_default();
    match begin_at(&call, &organization, &return_path).await {
        Ok((origin, begun)) => Ok(see_other(&begun.location, &[cookies::pending_sign_in(&origin, &begun.sealed)])),
        Err(problem) => {
            let way_back = WayBack { organization: Some(&organization), return_path: Some(&return_path) };
            failed(&call, problem, way_back, &[])
        }
    }
}

async fn begin_at(call: &Call, organization: &str, return_path: &ReturnPath) -> Result<(Origin, Begun), Problem> {
    let origin = Origin::of(call)?;
    let provider = call.segment("provider");
    let redirect_uri = format!("{}/auth/oidc/{provider}/callback", origin.link()?);
    let realm = &call.app.realm;
    let sso = realm.sso.get();
    let beginning = sso.begin((organization, provider), return_path, &redirect_uri, (realm.clock)());
    let begun = beginning.await.map_err(|failure| refused(call, &failure, Some(organization), provider))?;
    Ok((origin, begun))
}

/// Handles the browser's return from a provider.
pub async fn finish(call: Call) -> Answered {
    let origin = match Origin::of(&call) {
        Ok(origin) => origin,
        Err(problem) => return failed(&call, problem, WayBack::default(), &[]),
    };
    let provider = call.segment("provider");
    let parameters: Vec<(String, String)> =
        form_urlencoded::parse(call.request.query_string().as_bytes()).into_owned().take(PARAMETERS_MAX).collect();
    let parameter = |name: &str| parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let callback = Callback {
        provider,
        sealed: cookies::pending_sign_in_of(&call, &origin),
        state: parameter("state").unwrap_or_default(),
        code: parameter("code"),
        error: parameter("error"),
        issuer: parameter("iss"),
    };
    let realm = &call.app.realm;
    let finished = match realm.sso.get().finish(callback, (realm.clock)()).await {
        Ok(finished) => finished,
        // Another sign-in may be in progress in this browser, so its cookie is kept.
        Err(failure) => return failed(&call, refused(&call, &failure, None, provider), WayBack::default(), &[]),
    };
    let (organization, return_path) = (&finished.organization, &finished.return_path);
    let signed_in = match finished.outcome {
        Ok(person) => sign_in(&call, person).await,
        Err(failure) => Err(refused(&call, &failure, Some(organization.as_str()), provider)),
    };
    let over = cookies::no_pending_sign_in(&origin);
    match signed_in {
        Ok(open) => {
            let cookie = cookies::signed_in(&origin, &open, (realm.clock)());
            Ok(see_other(return_path.as_str(), &[cookie, over]))
        }
        Err(problem) => {
            let way_back = WayBack { organization: Some(organization.as_str()), return_path: Some(return_path) };
            failed(&call, problem, way_back, &[over])
        }
    }
}

/// Finds or creates the member, and signs them in.
async fn sign_in(call: &Call, person: ProvidedPerson) -> Result<OpenToken, Problem> {
    let (realm, timeout) = (&call.app.realm, call.app.node.answer_timeout);
    let now = (realm.clock)();
    let (provider, source) = (person.link.provider.clone(), person.source);
    let finding = async {
        let found = realm.accounts.member_of_provider(person, Cause::system(now)).await;
        found.map_err(|error| match error {
            AccountsError::MemberExists => Problem::from(Code::SsoNameTaken),
            error => error.into(),
        })
    };
    let member = done_within(timeout, LOOK, finding).await?;
    let new = new_sign_in(call, Proof::SingleSignOn(source));
    let open = done_within(timeout, LOOK, realm.accounts.sign_in(&member, new, now)).await?;
    tracing::info!(member = %member.id, name = %member.name, role = %member.role, %provider, "signed in");
    Ok(open)
}

/// The failure as a problem; the reason is only logged.
fn refused(call: &Call, failure: &Failure, organization: Option<&str>, provider: &str) -> Problem {
    let code = match failure {
        Failure::UnknownProvider => Code::ProviderNotFound,
        Failure::NotUnderWay => Code::SsoNotUnderWay,
        Failure::Denied(_) => Code::SsoDenied,
        Failure::Unavailable(_) => Code::SsoUnavailable,
        Failure::Invalid(_) => Code::SsoInvalid,
        Failure::NoRole => Code::SsoNoRole,
        Failure::NoName => Code::SsoNoName,
        Failure::Overloaded => return Problem::overloaded("too many sign-ins are being finished"),
    };
    let address = call.request.client_address();
    call.app.node.refusals.note("single sign-ons", address, || {
        let address = address.map(|address| address.to_string());
        tracing::warn!(bounded = true, organization, provider, address, reason = %failure, "single sign-on failed");
    });
    code.into()
}

/// The parameters with which the sign-in page can try again.
#[derive(Default)]
struct WayBack<'a> {
    organization: Option<&'a str>,
    return_path: Option<&'a ReturnPath>,
}

/// Browsers are sent to the sign-in page, which explains the code; other clients get the problem itself.
fn failed(call: &Call, problem: Problem, way_back: WayBack<'_>, cookies: &[HeaderValue]) -> Answered {
    let accepts = call.request.headers().text(&ACCEPT).unwrap_or_default();
    if !accepts.contains("text/html") {
        return Err(problem.into());
    }
    if let Some(cause) = problem.cause() {
        tracing::error!(code = problem.code().as_str(), cause, "single sign-on failed");
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("error", problem.code().as_str());
    if let Some(organization) = way_back.organization {
        query.append_pair("organization", organization);
    }
    if let Some(path) = way_back.return_path.filter(|path| **path != ReturnPath::default()) {
        query.append_pair("return", path.as_str());
    }
    Ok(see_other(&format!("/sign-in?{}", query.finish()), cookies))
}

fn see_other(location: &str, cookies: &[HeaderValue]) -> Response {
    let response = Response::new(StatusCode::SEE_OTHER).with(LOCATION, location);
    cookies.iter().fold(response, |response, cookie| response.with(SET_COOKIE, cookie))
}
