//! Exchanges the identity token of a CI job for a token (RFC 8693). No other access is needed: the identity token is
//! the caller's credential. All faults of the token get the same response, so that it does not reveal which
//! organizations exist and whom they trust; the reason is logged.

use actix_web::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::answer::{self, Answered};
use crate::http::body::read_open_pairs;
use crate::http::call::Call;
use crate::http::codes::Code;
use crate::http::outcome::done_within;
use crate::http::paging::Query;
use crate::http::problem::{FieldError, Problem};
use crate::http::request::RequestOrigin;
use accounts::auth::{AccountsError, OpenToken};
use accounts::identities::TokenError;
use domain::NoShare;

pub const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
pub const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
pub const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
/// After a failure, keys are read again a few seconds later.
const KEYS_RETRY_SECONDS: u64 = 5;
/// Advice for an exchange whose outcome is unknown.
const LOOK: &str = "exchange the identity token again";

/// A token for a job, by RFC 8693.
#[derive(Serialize, ToSchema)]
#[schema(as = ExchangedToken)]
pub struct ExchangedTokenView<'a> {
    /// The token, for `Authorization: Bearer …`.
    #[schema(example = "lk_3mZ0QhV7tYw2Rk9JxUa4SbLc8PdEfN1o5GqB")]
    access_token: &'a str,
    /// Always `urn:ietf:params:oauth:token-type:access_token`.
    #[schema(example = "urn:ietf:params:oauth:token-type:access_token")]
    issued_token_type: &'static str,
    /// Always `Bearer`.
    #[schema(example = "Bearer")]
    token_type: &'static str,
    /// The lifetime of the token in seconds.
    #[schema(example = 3600)]
    expires_in: i64,
}

pub async fn exchange(mut call: Call) -> Answered {
    Query::of(&call.request).finish()?;
    let pairs = read_open_pairs(&mut call).await?;
    let subject_token = subject_token(&pairs)?;
    let outcome = granted(&call, subject_token).await;
    let counted = match &outcome {
        Ok(_) => "granted",
        Err(problem) if problem.code().status().is_server_error() => "unavailable",
        Err(_) => "refused",
    };
    metrics::counter!("lockkeeper_token_exchanges_total", "outcome" => counted).increment(1);
    let (open, expires_in) = outcome?;
    let view = ExchangedTokenView {
        access_token: open.text.reveal(),
        issued_token_type: ACCESS_TOKEN,
        token_type: "Bearer",
        expires_in,
    };
    Ok(answer::json(StatusCode::OK, &view))
}

async fn granted(call: &Call, identity_token: &str) -> Result<(OpenToken, i64), Problem> {
    let (realm, organization) = (&call.app.realm, call.segment("orgId"));
    let now = (realm.clock)();
    let checked = realm.identities.get().check(organization, identity_token, now).await;
    let job = checked.map_err(|refusal| refused(call, &refusal))?;
    let seconds = job.token_seconds;
    let request = call.id.shared();
    let exchanging = async {
        let exchanged = realm.accounts.exchange(job, &request, now).await;
        exchanged.map_err(|error| not_exchanged(call, error))
    };
    let open = done_within::<_, Problem>(call.app.node.answer_timeout, LOOK, exchanging).await?;
    tracing::info!(organization, token = %open.token.id, subject = open.token.name, "token exchanged");
    Ok((open, seconds))
}

/// The identity token of a supported request. The standard's other parameters are refused, since they would be ignored.
fn subject_token(pairs: &[(String, String)]) -> Result<&str, Problem> {
    let mut faults = Faults::default();
    let grant_type = faults.required(pairs, "grant_type");
    let token_type = faults.required(pairs, "subject_token_type");
    let token = faults.required(pairs, "subject_token");
    let requested = faults.optional(pairs, "requested_token_type");
    const KNOWN: [&str; 4] = ["grant_type", "subject_token_type", "subject_token", "requested_token_type"];
    for (name, _) in pairs.iter().filter(|(name, _)| !KNOWN.contains(&name.as_str())) {
        faults.add(&shown(name), &format!("is not a known parameter; known here: {}", KNOWN.join(", ")));
    }
    if grant_type.is_some_and(|given| given != GRANT_TYPE) {
        let detail = format!("`grant_type` must be `{GRANT_TYPE}`");
        return Err(oauth(Problem::new(Code::UnsupportedGrantType, detail)));
    }
    if token_type.is_some_and(|given| given != ID_TOKEN) {
        faults.add("subject_token_type", &format!("must be `{ID_TOKEN}`"));
    }
    if requested.is_some_and(|given| given != ACCESS_TOKEN) {
        faults.add("requested_token_type", &format!("must be `{ACCESS_TOKEN}` or left out"));
    }
    if faults.0.is_empty() { Ok(token.unwrap_or_default()) } else { Err(faults.problem()) }
}

#[derive(Default)]
struct Faults(Vec<FieldError>);

impl Faults {
    fn add(&mut self, field: &str, message: &str) {
        self.0.push(FieldError { field: field.to_owned(), message: message.to_owned() });
    }

    fn required<'p>(&mut self, pairs: &'p [(String, String)], name: &str) -> Option<&'p str> {
        let given = self.optional(pairs, name).filter(|value| !value.is_empty());
        if given.is_none() {
            self.add(name, "is required");
        }
        given
    }

    fn optional<'p>(&mut self, pairs: &'p [(String, String)], name: &str) -> Option<&'p str> {
        let mut given = pairs.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let first = given.next();
        if given.next().is_some() {
            self.add(name, "must be given once");
        }
        first
    }

    /// 400 instead of 422, as RFC 6749 requires.
    fn problem(self) -> Problem {
        oauth(Problem::invalid_request(self.0).with_status(StatusCode::BAD_REQUEST))
    }
}

/// A received name, shortened to the length of a real one: it might be a misplaced token.
fn shown(name: &str) -> String {
    const NAME_LENGTH_MAX: usize = 32;
    name.chars().filter(|c| c.is_ascii_graphic()).take(NAME_LENGTH_MAX).collect()
}

/// Logs the reason, unless this address has been logged too often recently.
fn note_refusal(call: &Call, reason: &dyn std::fmt::Display) {
    let (organization, address) = (call.segment("orgId"), call.request.client_address());
    call.app.node.refusals.note("token exchanges", address, || {
        let address = address.map(|address| address.to_string());
        tracing::warn!(bounded = true, organization, address, %reason, "an identity token was not exchanged");
    });
}

fn refused(call: &Call, refusal: &TokenError) -> Problem {
    note_refusal(call, refusal);
    match refusal {
        TokenError::Malformed
        | TokenError::TooLong(_)
        | TokenError::NoIssuers
        | TokenError::UntrustedIssuer(_)
        | TokenError::Invalid(_)
        | TokenError::NoRule(_) => invalid_grant(),
        TokenError::KeysUnavailable(_) => {
            let detail = "the server cannot read the keys of the issuer; try again after `Retry-After`";
            oauth(Problem::new(Code::IssuerUnavailable, detail).retry_after(KEYS_RETRY_SECONDS))
        }
        TokenError::Crowded => Problem::overloaded("too many identity tokens are being checked"),
    }
}

fn not_exchanged(call: &Call, error: AccountsError) -> Problem {
    match error {
        AccountsError::ExchangedTooOften
        | AccountsError::NotForJobs
        | AccountsError::NoLongerTrusted
        | AccountsError::MemberDisabled
        | AccountsError::TooManyMembers => {
            note_refusal(call, &error);
            invalid_grant()
        }
        AccountsError::TooManyExchanged(_) => {
            note_refusal(call, &error);
            Problem::overloaded(match error {
                AccountsError::TooManyExchanged(NoShare::Own { .. }) => {
                    "the subject of this job has too many tokens that have not expired, and the rest is kept for other jobs; \
                     keep one token per job, and revoke it when the job ends"
                }
                _ => "the organization has too many tokens of jobs that have not expired",
            })
        }
        error => error.into(),
    }
}

fn invalid_grant() -> Problem {
    oauth(Problem::from(Code::InvalidGrant))
}

/// Adds the `error` member, which OAuth clients expect.
fn oauth(problem: Problem) -> Problem {
    let code = problem.code().as_str();
    problem.with("error", code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(pairs: &[(&str, &str)]) -> Option<(u16, String)> {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let problem = subject_token(&pairs).err()?;
        Some((problem.render("").status.as_u16(), problem.to_string()))
    }

    #[test]
    fn only_an_exchange_of_one_identity_token_is_taken() {
        let good = [("grant_type", GRANT_TYPE), ("subject_token", "x.y.z"), ("subject_token_type", ID_TOKEN)];
        assert_eq!(problem(&good), None);
        let with = |name: &'static str, value: &'static str| [&good[..], &[(name, value)]].concat();
        assert_eq!(problem(&with("requested_token_type", ACCESS_TOKEN)), None);
        for (pairs, code, said) in [
            (
                vec![],
                "invalid_request",
                "`grant_type` is required; `subject_token_type` is required; `subject_token` is",
            ),
            (good[1..].to_vec(), "invalid_request", "`grant_type` is required"),
            (with("subject_token", "a.b.c"), "invalid_request", "`subject_token` must be given once"),
            (with("scope", "all"), "invalid_request", "`scope` is not a known parameter"),
            (with("requested_token_type", ID_TOKEN), "invalid_request", "`requested_token_type` must be"),
            (vec![("grant_type", "client_credentials")], "unsupported_grant_type", "`grant_type` must be"),
            (vec![good[0], good[1], ("subject_token_type", "jwt")], "invalid_request", "`subject_token_type` must be"),
            (vec![good[0], ("subject_token", ""), good[2]], "invalid_request", "`subject_token` is required"),
        ] {
            let (status, problem) = problem(&pairs).unwrap_or_default();
            assert!(
                status == 400 && problem.starts_with(code) && problem.contains(said),
                "{pairs:?}: {status} {problem}"
            );
        }
    }

    #[test]
    fn fuzzed_exchanges_are_taken_or_refused() {
        let good = format!("grant_type={GRANT_TYPE}&subject_token=eyJhbGciOi.x.y&subject_token_type={ID_TOKEN}");
        let samples = [good.clone(), good.replace(':', "%3A"), format!("{good}&requested_token_type={ACCESS_TOKEN}")];
        let words = ["grant_type=", "&subject_token=", "&subject_token_type=", "%00", "%ff", "+", "&&", "=", ID_TOKEN];
        testkit::fuzz::fuzz(samples, &words, |bytes| {
            let pairs: Vec<_> = form_urlencoded::parse(bytes).into_owned().collect();
            match subject_token(&pairs) {
                Ok(token) => {
                    let given = |name: &str| pairs.iter().filter(|(known, _)| known == name).collect::<Vec<_>>();
                    assert!(!token.is_empty() && given("subject_token").len() == 1);
                    assert!(matches!(&*given("grant_type"), [(_, found)] if found == GRANT_TYPE));
                    assert!(matches!(&*given("subject_token_type"), [(_, found)] if found == ID_TOKEN));
                    (200, String::new())
                }
                Err(problem) => {
                    let code = problem.code().as_str().to_owned();
                    assert_eq!(problem.render("").status.as_u16(), 400, "{pairs:?}");
                    (400, code)
                }
            }
        });
    }
}
