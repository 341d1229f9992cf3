//! Authentication and authorisation: every handler of the API begins here. Another organization looks exactly like one
//! that does not exist.

use std::sync::Arc;

use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderValue};

use super::call::Call;
use super::codes::Code;
use super::problem::Problem;
use super::state::{App, Node, PerThread, Realm};
use crate::actors::Environments;
use crate::auth::{Caller, Permission, Unauthenticated};
use crate::domain::{EnvironmentKey, Identifier, Initiator, RequestRef, SessionId};
use crate::pipelines::Pipeline;

/// An authenticated caller within their own organization, with the permission that the handler requires.
#[derive(Clone)]
pub struct Access {
    pub node: PerThread<Node>,
    pub realm: PerThread<Realm>,
    pub caller: Caller,
    request: HeaderValue,
}

impl Access {
    pub fn to(call: &Call, permission: Permission) -> Result<Self, Problem> {
        // The one place that chooses a request's realm; with several of them, by the organization in the path.
        let App { node, realm } = call.app.clone();
        let caller = authenticate(call.request.headers(), &realm)?;
        if let Some(limits) = &realm.rate_limits {
            limits.check(caller.token)?;
        }
        check(&caller, call.segment("orgId"), permission)?;
        Ok(Self { node, realm, caller, request: call.id.clone() })
    }

    /// Whether the request would still be allowed: tokens are revoked and expire, and members are removed.
    pub fn still_holds(&self, headers: &HeaderMap, permission: Permission) -> bool {
        self.again(headers, permission).is_ok()
    }

    /// The same, with the problem to answer.
    pub fn again(&self, headers: &HeaderMap, permission: Permission) -> Result<(), Problem> {
        check(&authenticate(headers, &self.realm)?, self.caller.organization.as_str(), permission)
    }

    /// The caller as recorded in events and the audit.
    pub fn initiator(&self) -> Initiator {
        let request = Arc::from(self.request.to_str().unwrap_or_default());
        Initiator { person: self.caller.person.clone(), via: Some(RequestRef { token: self.caller.token, request }) }
    }

    /// The environments, acting in the caller's name.
    pub fn environments(&self) -> Environments {
        self.realm.environments.by(self.initiator())
    }

    pub fn may(&self, permission: Permission) -> bool {
        permission.is_granted_to(self.caller.role)
    }

    pub fn pipeline(&self, call: &Call) -> Result<Arc<Pipeline>, Problem> {
        let id = call.segment("pipelineId");
        self.realm.pipelines.get(&self.caller.organization, id).ok_or_else(super::refusals::pipeline_not_found)
    }

    /// The environment in the path; whether it exists is checked by the actor or the reader.
    pub fn environment(&self, call: &Call) -> Result<EnvironmentKey, Problem> {
        let pipeline = self.pipeline(call)?.key.clone();
        let name = Identifier::parse(call.segment("envName")).map_err(|_| super::refusals::environment_not_found())?;
        Ok(EnvironmentKey { pipeline, name })
    }
}

/// The session in the path. A malformed id is answered like an unknown one.
pub fn session_id(call: &Call) -> Result<SessionId, Problem> {
    call.segment("sessionId").parse().map_err(|_| super::refusals::session_not_found())
}

fn authenticate(headers: &HeaderMap, realm: &Realm) -> Result<Caller, Problem> {
    let Some(header) = headers.get(AUTHORIZATION) else {
        let detail = "send `Authorization: Bearer <API_TOKEN>`; an admin creates tokens with POST /tokens";
        return Err(Problem::unauthenticated(Code::MissingToken, detail));
    };
    let invalid = |why: &str| {
        let detail = format!("the token {why}; use another one, an admin creates them with POST /tokens");
        Problem::unauthenticated(Code::InvalidToken, detail)
    };
    let text = header.to_str().unwrap_or_default();
    let token = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let Some((_, token)) = token else {
        return Err(invalid("is not sent as `Authorization: Bearer <API_TOKEN>`"));
    };
    realm.accounts.authenticate(token.trim(), (realm.clock)()).map_err(|why| match why {
        Unauthenticated::Malformed(malformed) => invalid(&malformed.to_string()),
        Unauthenticated::Unknown => invalid("is unknown or has been revoked"),
        Unauthenticated::Expired => invalid("has expired"),
    })
}

fn check(caller: &Caller, organization: &str, permission: Permission) -> Result<(), Problem> {
    if caller.organization.as_str() != organization {
        return Err(Problem::new(
            Code::OrganizationNotFound,
            "the token has no access to this organization; a token belongs to one organization",
        ));
    }
    if permission.is_granted_to(caller.role) { Ok(()) } else { Err(denied(caller, permission)) }
}

fn denied(caller: &Caller, permission: Permission) -> Problem {
    let required = permission.required_role();
    let detail = format!("this requires the role {required}, and {} is {}", caller.person.name, caller.role);
    Problem::new(Code::PermissionDenied, detail).with("requiredRole", required.as_str())
}
