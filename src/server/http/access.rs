//! Authentication and authorisation, by a token or by the sign-in of a browser: every handler of the API begins here.
//! Another organization looks exactly like one that does not exist.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::AUTHORIZATION;

use super::authorization;
use super::call::Call;
use super::call::{App, PerThread};
use super::codes::Code;
use super::cookies;
use super::outcome::read_within;
use super::own_page;
use super::problem::Problem;
use super::request::RequestId;
use super::state::{Node, Realm};
use accounts::auth::{Caller, Identity, Permission, Unauthenticated};
use domain::{EnvironmentKey, Identifier, Initiator, Malformed, RequestRef, SessionId};
use locks::Environments;
use locks::pipelines::Pipeline;
use shares::Place;

/// An authenticated caller within their own organization, with the permission that the handler requires.
#[derive(Clone)]
pub struct Access {
    pub node: PerThread<Node>,
    pub realm: PerThread<Realm>,
    /// As of the last check.
    pub caller: Caller,
    permission: Permission,
    request: RequestId,
}

const HOW_TO_SEND: &str = "send `Authorization: Bearer <API_TOKEN>`; an admin creates tokens with POST /tokens";

/// How often a request that waits looks at the clock, if its token expires: wall clocks are set.
const EXPIRY_CHECKED_EVERY: Duration = Duration::from_secs(60);

impl Access {
    pub fn to(call: &Call, permission: Permission) -> Result<Self, Problem> {
        let access = Self::to_own_organization(call, permission)?;
        check(&access.caller, call.segment("orgId"), permission)?;
        Ok(access)
    }

    /// For a path that names no organization: the caller's own. The role is not checked.
    pub fn to_own_organization(call: &Call, permission: Permission) -> Result<Self, Problem> {
        let App { node, realm, encrypted: _ } = call.app.clone();
        let caller = authenticate(call, &realm)?;
        if let Some(limits) = &realm.rate_limits {
            limits.check(caller.token)?;
        }
        Ok(Self { node, realm, caller, permission, request: call.id.clone() })
    }

    /// After anything that took time: refuses a caller whose token was revoked or has expired since, who was removed or
    /// demoted, and gives the others the role they have now. Costs next to nothing if nobody lost anything meanwhile.
    pub fn renew(&mut self) -> Result<(), Problem> {
        if !self.is_current() {
            self.caller = self.caller_now()?;
        }
        Ok(())
    }

    /// The same for a request that has used its role already, or streams its answer.
    pub fn check_again(&self) -> Result<(), Problem> {
        if self.is_current() { Ok(()) } else { self.caller_now().map(|_| ()) }
    }

    /// Resolves in the moment in which the caller loses the permission, with the problem to answer.
    pub async fn lost(&self) -> Problem {
        let mut revoked = self.realm.accounts.revocations.watch(&self.caller.organization);
        loop {
            if let Err(problem) = self.check_again() {
                return problem;
            }
            tokio::select! {
                // The sender lives as long as the accounts.
                _ = revoked.changed() => {}
                () = self.expiry() => {}
            }
        }
    }

    fn is_current(&self) -> bool {
        self.realm.accounts.is_current(&self.caller, &*self.realm.clock)
    }

    fn caller_now(&self) -> Result<Caller, Problem> {
        let caller = self.realm.accounts.authenticate_again(&self.caller, (self.realm.clock)());
        let caller = caller.map_err(|why| unauthenticated(why, self.caller.is_sign_in))?;
        check(&caller, self.caller.organization.as_str(), self.permission)?;
        Ok(caller)
    }

    /// The caller's member and token, once what is shown is durable.
    pub async fn identity(&self) -> Result<Identity, Problem> {
        let reading = self.realm.accounts.identity(&self.caller);
        let identity = read_within(self.node.answer_timeout, "members", reading).await?;
        identity.map_err(|why| unauthenticated(why, self.caller.is_sign_in))
    }

    /// Until the token has expired, or the clock should be looked at again.
    async fn expiry(&self) {
        let Some(expires) = self.caller.expires_at() else { return std::future::pending().await };
        let left = expires.as_millis().saturating_sub((self.realm.clock)().as_millis());
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0).max(1));
        tokio::time::sleep(left.min(EXPIRY_CHECKED_EVERY)).await;
    }

    /// Reads a list of the caller's organization, when it is its turn. That may take a while, so access is checked again.
    pub async fn read_list<T: Send + 'static, E: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem>
    where
        Problem: From<E>,
    {
        let list = self.node.scans.read(&self.caller.organization, Some(self.caller.holder()), read).await?;
        self.check_again()?;
        Ok(list)
    }

    /// A place for a request that waits or streams, since it holds its connection: the connections are shared too.
    pub fn hold_connection(&self) -> Result<Option<Place>, Problem> {
        let Some(places) = self.node.held_connections.get() else { return Ok(None) };
        let held = places.try_acquire_for(&self.caller.organization, Some(self.caller.holder())).map_err(|refused| {
            Problem::overloaded(&format!("too many requests wait on their connections: {refused}; ask without waiting"))
        });
        held.map(Some)
    }

    /// The caller as recorded in events and the audit.
    pub fn initiator(&self) -> Initiator {
        let request = self.request.shared();
        Initiator { person: self.caller.person.clone(), via: Some(RequestRef { token: self.caller.token, request }) }
    }

    /// The environments, acting in the caller's name.
    pub fn environments(&self) -> Environments {
        self.realm.environments.by(self.initiator()).as_role(self.caller.role)
    }

    pub fn may(&self, permission: Permission) -> bool {
        permission.is_granted_to(self.caller.role)
    }

    /// A permission beyond the one of the handler.
    pub fn require(&self, permission: Permission) -> Result<(), Problem> {
        if self.may(permission) { Ok(()) } else { Err(denied(&self.caller, permission)) }
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

/// A cookie is not looked at if there is a token.
fn authenticate(call: &Call, realm: &Realm) -> Result<Caller, Problem> {
    let Some(header) = call.request.headers().get(&AUTHORIZATION) else {
        if let Some(text) = cookies::sign_in_text(call) {
            own_page::require(call)?;
            let caller = realm.accounts.authenticate_sign_in(text, (realm.clock)());
            return caller.map_err(|why| unauthenticated(why, true));
        }
        let detail = format!("there is no `Authorization` header; {HOW_TO_SEND}");
        return Err(Problem::unauthenticated(Code::MissingToken, detail));
    };
    let Some(token) = authorization::bearer(header) else {
        return Err(mistaken(header, "is not sent as it should be"));
    };
    let now = (realm.clock)();
    let caller = match call.request.connection() {
        Some(connection) => realm.accounts.authenticate_known(token, &connection.known_token, now),
        None => realm.accounts.authenticate(token, now),
    };
    caller.map_err(|why| match why {
        Unauthenticated::Malformed(Malformed(why)) => mistaken(header, why),
        Unauthenticated::Unknown | Unauthenticated::Expired | Unauthenticated::Disabled => unauthenticated(why, false),
    })
}

/// `why` completes "the token", if it is none of the usual mistakes.
fn mistaken(header: &[u8], why: &str) -> Problem {
    let mistake = authorization::mistake(header).unwrap_or_else(|| format!("the token {why}"));
    Problem::unauthenticated(Code::InvalidToken, format!("{mistake}; {HOW_TO_SEND}"))
}

/// What a caller was authenticated with, as it was sent: the only secret that both sides know and the disk does not.
pub fn credential(call: &Call) -> &str {
    match call.request.headers().get(&AUTHORIZATION) {
        Some(header) => authorization::bearer(header).unwrap_or_default(),
        None => cookies::sign_in_text(call).unwrap_or_default(),
    }
}

fn unauthenticated(why: Unauthenticated, is_sign_in: bool) -> Problem {
    match why {
        Unauthenticated::Malformed(_) | Unauthenticated::Unknown | Unauthenticated::Expired if is_sign_in => {
            Problem::unauthenticated(Code::InvalidToken, "the sign-in of this browser has ended; sign in again")
        }
        Unauthenticated::Malformed(malformed) => invalid(&malformed.to_string()),
        Unauthenticated::Unknown => invalid("is unknown or has been revoked"),
        Unauthenticated::Expired => invalid("has expired"),
        Unauthenticated::Disabled => {
            let detail =
                "the token belongs to a member who is disabled; an admin enables them with PATCH /members/{userId}";
            Problem::unauthenticated(Code::InvalidToken, detail)
        }
    }
}

fn invalid(why: &str) -> Problem {
    let detail = format!("the token {why}; use another one, an admin creates them with POST /tokens");
    Problem::unauthenticated(Code::InvalidToken, detail)
}

fn check(caller: &Caller, organization: &str, permission: Permission) -> Result<(), Problem> {
    if caller.organization.as_str() != organization {
        return Err(Problem::new(
            Code::OrganizationNotFound,
            format!("the token has no access to this organization; it belongs to `{}`", caller.organization),
        ));
    }
    if permission.is_granted_to(caller.role) { Ok(()) } else { Err(denied(caller, permission)) }
}

fn denied(caller: &Caller, permission: Permission) -> Problem {
    let required = permission.required_role();
    let detail = format!("this requires the role {required}, and {} is {}", caller.person.name, caller.role);
    Problem::new(Code::PermissionDenied, detail).with("requiredRole", required.as_str())
}
