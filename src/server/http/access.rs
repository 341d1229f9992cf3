//! Authentication and authorisation, by a token or a browser's sign-in: every handler of the API begins here. Another
//! organization looks exactly like one that does not exist. Malformed credentials are never quoted, since they may
//! contain a token.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::AUTHORIZATION;

use super::call::{App, Call, PerThread};
use super::codes::Code;
use super::outcome::read_within;
use super::problem::Problem;
use super::refusals::permission_denied;
use super::request::RequestId;
use super::state::{Node, Realm};
use super::{cookies, own_page};
use accounts::auth::{Caller, Identity, KnownToken, Permission, Unauthenticated};
use domain::{EnvironmentKey, Identifier, Initiator, Malformed, RequestRef};
use locks::Environments;
use locks::pipelines::Pipeline;
use shares::Permit;

/// An authenticated caller within their own organization, with the permission that the handler requires.
#[derive(Clone)]
pub struct Access {
    pub node: PerThread<Node>,
    pub realm: PerThread<Realm>,
    /// The caller as of the last check.
    pub caller: Caller,
    permission: Permission,
    request: RequestId,
}

const HOW_TO_SEND: &str = "send `Authorization: Bearer <API_TOKEN>`; an admin creates tokens with POST /tokens";

/// How often a waiting request checks whether its token has expired. Needed because wall clocks may be set.
const EXPIRY_CHECKED_EVERY: Duration = Duration::from_secs(60);

impl Access {
    pub fn to(call: &Call, permission: Permission) -> Result<Self, Problem> {
        let access = Self::to_own_organization(call, permission)?;
        check(&access.caller, call.segment("orgId"), permission)?;
        Ok(access)
    }

    /// For paths without an organization, which refer to the caller's own. Does not check the role.
    pub fn to_own_organization(call: &Call, permission: Permission) -> Result<Self, Problem> {
        let App { node, realm, encrypted: _ } = call.app.clone();
        let caller = authenticate(call, &realm)?;
        if let Some(limits) = &realm.rate_limits {
            limits.check(caller.token)?;
        }
        Ok(Self { node, realm, caller, permission, request: call.id.clone() })
    }

    /// Call this after anything that took time: refuses a caller who has lost access (token revoked or expired, member
    /// removed or demoted), and updates the role of others. Costs almost nothing if nobody lost access meanwhile.
    pub fn renew(&mut self) -> Result<(), Problem> {
        if !self.is_current() {
            self.caller = self.caller_now()?;
        }
        Ok(())
    }

    /// Like [`Access::renew`], for a request that no longer needs the role, or streams its response.
    pub fn check_again(&self) -> Result<(), Problem> {
        if self.is_current() { Ok(()) } else { self.caller_now().map(|_| ()) }
    }

    /// Resolves as soon as the caller loses the permission, with the problem to respond with.
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

    /// The caller's member and token, once they are durable.
    pub async fn identity(&self) -> Result<Identity, Problem> {
        let reading = self.realm.accounts.identity(&self.caller);
        let identity = read_within(self.node.answer_timeout, "members", reading).await?;
        identity.map_err(|why| unauthenticated(why, self.caller.is_sign_in))
    }

    /// Waits until the token expires or the clock should be checked again.
    async fn expiry(&self) {
        let Some(expires) = self.caller.expires_at else { return std::future::pending().await };
        let left = expires.as_millis().saturating_sub((self.realm.clock)().as_millis());
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0).max(1));
        tokio::time::sleep(left.min(EXPIRY_CHECKED_EVERY)).await;
    }

    /// Reads a list of the caller's organization when it is its turn. Then checks access again, since the wait may be
    /// long.
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

    /// A permit for a request that waits or streams: it holds a connection, and connections are shared, too.
    pub fn hold_connection(&self) -> Result<Option<Permit>, Problem> {
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

    /// Requires a permission in addition to the handler's.
    pub fn require(&self, permission: Permission) -> Result<(), Problem> {
        if self.may(permission) { Ok(()) } else { Err(denied(&self.caller, permission)) }
    }

    pub fn pipeline(&self, call: &Call) -> Result<Arc<Pipeline>, Problem> {
        let id = call.segment("pipelineId");
        Ok(self.realm.pipelines.get(&self.caller.organization, id).ok_or(Code::PipelineNotFound)?)
    }

    /// The environment in the path. The actor or the reader checks whether it exists.
    pub fn environment(&self, call: &Call) -> Result<EnvironmentKey, Problem> {
        let pipeline = self.pipeline(call)?.key.clone();
        let name = Identifier::parse(call.segment("envName")).map_err(|_| Code::EnvironmentNotFound)?;
        Ok(EnvironmentKey { pipeline, name })
    }
}

/// If there is a token, cookies are ignored.
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
    let Some(token) = bearer(header) else {
        return Err(mistaken(header, "is not sent as it should be"));
    };
    let now = (realm.clock)();
    let caller = match call.request.connection().and_then(|connection| connection.extension::<KnownToken>()) {
        Some(known) => realm.accounts.authenticate_known(token, known, now),
        None => realm.accounts.authenticate(token, now),
    };
    caller.map_err(|why| match why {
        Unauthenticated::Malformed(Malformed(why)) => mistaken(header, why),
        Unauthenticated::Unknown | Unauthenticated::Expired | Unauthenticated::Disabled => unauthenticated(why, false),
    })
}

/// A problem for a malformed header. For unusual mistakes, `why` completes "the token".
fn mistaken(header: &[u8], why: &str) -> Problem {
    let mistake = mistake(header).unwrap_or_else(|| format!("the token {why}"));
    Problem::unauthenticated(Code::InvalidToken, format!("{mistake}; {HOW_TO_SEND}"))
}

/// The credential as sent: the only secret that both sides know and the disk does not contain.
pub fn credential(call: &Call) -> &str {
    match call.request.headers().get(&AUTHORIZATION) {
        Some(header) => bearer(header).unwrap_or_default(),
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
    permission_denied(required, detail)
}

const BEARER: &[u8] = b"Bearer";
/// Schemes that other APIs use.
const OTHER_SCHEMES: [&str; 8] = ["Basic", "Token", "Digest", "ApiKey", "Key", "OAuth", "Bot", "JWT"];
/// Placeholders for tokens in examples.
const PLACEHOLDERS: [&str; 9] =
    ["token", "api_token", "api-token", "your_token", "your-token", "your_api_token", "mytoken", "xxx", "changeme"];

/// The token after `Bearer`, well-formed or not.
pub fn bearer(header: &[u8]) -> Option<&str> {
    let (scheme, token) = header.split_at_checked(BEARER.len())?;
    let token = token.strip_prefix(b" ").filter(|_| scheme.eq_ignore_ascii_case(BEARER))?;
    str::from_utf8(token.trim_ascii()).ok()
}

/// The mistake in a header without a usable token, as a sentence. `None` for unusual mistakes.
pub fn mistake(header: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(header);
    let text = text.trim();
    let (scheme, token) =
        text.split_once(char::is_whitespace).map_or((text, ""), |(scheme, rest)| (scheme, rest.trim()));
    if scheme.eq_ignore_ascii_case("bearer") {
        return mistake_in_token(token).map(str::to_owned);
    }
    let other = OTHER_SCHEMES.iter().find(|other| other.eq_ignore_ascii_case(scheme)).filter(|_| !token.is_empty());
    if let Some(other) = other {
        return Some(format!("tokens are sent with the scheme `Bearer`, not with `{other}`"));
    }
    let is_bearer_and_more = scheme.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("bearer"));
    let mistake = match scheme {
        "" => "the header `Authorization` is empty, perhaps like the variable that should hold the token",
        _ if scheme.eq_ignore_ascii_case("authorization:") => "the name of the header is a part of its value",
        _ if is_bearer_and_more => "after `Bearer` comes a space, and nothing else before the token",
        // Another scheme with a parameter.
        _ if !token.is_empty() && !text.starts_with("lk_") => return None,
        _ => match mistake_in_token(text) {
            Some(mistake) => mistake,
            None if text.starts_with("lk_") => "the word `Bearer` is missing before the token",
            None => return None,
        },
    };
    Some(mistake.to_owned())
}

fn mistake_in_token(token: &str) -> Option<&'static str> {
    let lower = token.to_ascii_lowercase();
    let is_placeholder = token.contains(['<', '>', '{', '}', '[', '…'])
        || token.contains("...")
        || PLACEHOLDERS.contains(&lower.as_str());
    if token.is_empty() {
        Some("there is no token after `Bearer`: perhaps the variable that should hold it is empty")
    } else if token.starts_with('$') || (token.starts_with('%') && token.ends_with('%')) {
        Some("the name of a variable was sent instead of its value; a shell needs double quotes to replace it")
    } else if is_placeholder {
        Some("the token is a placeholder, as in an example; put your own in its place")
    } else if token.contains(['"', '\'', '`', '\u{201c}', '\u{201d}']) {
        Some("the token has quotes in it; leave them out")
    } else if lower.starts_with("bearer") {
        Some("the word `Bearer` is there twice")
    } else if token.contains(char::is_whitespace) || token.contains("\\n") || lower.contains("%0a") {
        Some("the token has a space or a line break in it; it must be in one piece")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TOKEN: &str = "lk_0000000000000000000000000000002C8GjS";

    #[test]
    fn a_token_after_bearer_is_taken_whatever_the_case_and_the_spaces() {
        for sent in [format!("Bearer {TOKEN}"), format!("bearer  {TOKEN} ")] {
            assert_eq!(bearer(sent.as_bytes()), Some(TOKEN));
            assert_eq!(mistake(sent.as_bytes()), None);
        }
        for sent in [TOKEN, "Bearer", "", "Basic x"] {
            assert_eq!(bearer(sent.as_bytes()), None, "{sent}");
        }
    }

    #[test]
    fn each_mistake_is_said_as_it_is_and_nothing_of_what_was_sent() {
        let sent_and_said = [
            (TOKEN.to_owned(), "the word `Bearer` is missing"),
            (format!("Basic {TOKEN}"), "with the scheme `Bearer`, not with `Basic`"),
            (format!("token {TOKEN}"), "not with `Token`"),
            (format!("Bearer: {TOKEN}"), "after `Bearer` comes a space"),
            (format!("Bearer={TOKEN}"), "after `Bearer` comes a space"),
            (format!("Bearer{TOKEN}"), "after `Bearer` comes a space"),
            (format!("Authorization: Bearer {TOKEN}"), "the name of the header is a part of its value"),
            (format!("Bearer Bearer {TOKEN}"), "`Bearer` is there twice"),
            (format!("Bearer \"{TOKEN}\""), "has quotes in it"),
            (format!("'{TOKEN}'"), "has quotes in it"),
            (format!("Bearer {} {}", &TOKEN[..20], &TOKEN[20..]), "in one piece"),
            (format!("Bearer {TOKEN}\\n"), "in one piece"),
            ("Bearer".to_owned(), "there is no token after `Bearer`"),
            ("bearer ".to_owned(), "there is no token after `Bearer`"),
            (String::new(), "is empty"),
            ("Bearer lk_…".to_owned(), "a placeholder"),
            ("Bearer lk_...".to_owned(), "a placeholder"),
            ("Bearer <token>".to_owned(), "a placeholder"),
            ("Bearer <API_TOKEN>".to_owned(), "a placeholder"),
            ("Bearer YOUR_TOKEN".to_owned(), "a placeholder"),
            ("Bearer {{ secrets.LOCKKEEPER }}".to_owned(), "a placeholder"),
            ("Bearer $TOKEN".to_owned(), "the name of a variable"),
            ("Bearer ${TOKEN}".to_owned(), "the name of a variable"),
            ("$TOKEN".to_owned(), "the name of a variable"),
            ("Bearer %TOKEN%".to_owned(), "the name of a variable"),
        ];
        for (sent, said) in sent_and_said {
            let mistake = mistake(sent.as_bytes()).unwrap_or_else(|| panic!("{sent}"));
            assert!(mistake.contains(said), "{sent}: {mistake}");
            assert!(!mistake.contains("lk_") && !mistake.contains("0000"), "{mistake}");
        }
        for other in [&b"Bearer ghp_abcdefghij"[..], b"Bearer lk_short", b"Negotiate abc", b"Basic", b"\xff\xfe"] {
            assert_eq!(mistake(other), None, "{}", String::from_utf8_lossy(other));
        }
    }
}
