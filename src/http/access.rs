//! Who calls, and may they? Every handler of the API begins here. Another organization looks exactly like one that does
//! not exist.

use std::rc::Rc;
use std::sync::Arc;

use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderValue};

use super::call::Call;
use super::codes::Code;
use super::problem::Problem;
use super::state::{App, Node, Realm};
use crate::actors::Environments;
use crate::auth::{Caller, Permission, Unauthenticated};
use crate::domain::{Agent, EnvironmentKey, Identifier, SessionId, Via};
use crate::pipelines::Pipeline;

/// A caller inside their own organization, allowed to do what the handler does.
#[derive(Clone)]
pub struct Access {
    pub node: Rc<Arc<Node>>,
    pub realm: Rc<Arc<Realm>>,
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

    /// Whether the same would be allowed now: tokens are revoked and expire, and members go.
    pub fn still_holds(&self, headers: &HeaderMap, permission: Permission) -> bool {
        self.again(headers, permission).is_ok()
    }

    /// The same, with what is said to a caller who has come too late.
    pub fn again(&self, headers: &HeaderMap, permission: Permission) -> Result<(), Problem> {
        check(&authenticate(headers, &self.realm)?, self.caller.organization.as_str(), permission)
    }

    /// Who does what the request asks for, as the audit names them.
    pub fn agent(&self) -> Agent {
        let request = Arc::from(self.request.to_str().unwrap_or_default());
        Agent { person: self.caller.person.clone(), via: Some(Via { token: self.caller.token, request }) }
    }

    /// The environments, asked in the caller's name.
    pub fn environments(&self) -> Environments {
        self.realm.environments.by(self.agent())
    }

    pub fn may(&self, permission: Permission) -> bool {
        permission.is_granted_to(self.caller.role)
    }

    pub fn pipeline(&self, call: &Call) -> Result<Arc<Pipeline>, Problem> {
        let id = call.segment("pipelineId");
        self.realm.pipelines.get(&self.caller.organization, id).ok_or_else(super::refusals::pipeline_not_found)
    }

    /// The environment of the path; whether it exists is for the actor or the reader to say.
    pub fn environment(&self, call: &Call) -> Result<EnvironmentKey, Problem> {
        let pipeline = self.pipeline(call)?.key.clone();
        let name = Identifier::parse(call.segment("envName")).map_err(|_| super::refusals::environment_not_found())?;
        Ok(EnvironmentKey { pipeline, name })
    }
}

/// The session of the path. One that cannot be read as an id never was.
pub fn session_id(call: &Call) -> Result<SessionId, Problem> {
    call.segment("sessionId").parse().map_err(|_| super::refusals::session_not_found())
}

fn authenticate(headers: &HeaderMap, realm: &Realm) -> Result<Caller, Problem> {
    let Some(header) = headers.get(AUTHORIZATION) else {
        let detail = "send `Authorization: Bearer <API_TOKEN>`; an admin makes tokens with POST /tokens";
        return Err(Problem::unauthenticated(Code::MissingToken, detail));
    };
    let invalid = |why: &str| {
        let detail = format!("the token {why}; use another one, an admin makes them with POST /tokens");
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
            "there is no such organization for this token; a token belongs to one organization",
        ));
    }
    if permission.is_granted_to(caller.role) { Ok(()) } else { Err(denied(caller, permission)) }
}

fn denied(caller: &Caller, permission: Permission) -> Problem {
    let required = permission.required_role();
    let detail = format!("this takes the role {required}, and {} is {}", caller.person.name, caller.role);
    Problem::new(Code::PermissionDenied, detail).with("requiredRole", required.as_str())
}
