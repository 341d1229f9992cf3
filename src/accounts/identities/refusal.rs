//! Why an identity token is not exchanged.

use crate::sso::Failure;

/// The texts are for the operator's log: whoever sent the token learns only that it was refused, and never whether there is
/// such an organization. None has a token in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("it is not a signed token (JWT) with a subject, an issuer, an audience, a time of issue and an end")]
    Malformed,
    #[error("it has more than {0} bytes")]
    TooLong(usize),
    #[error("the organization does not exist, or trusts no issuer")]
    NoIssuers,
    #[error("the organization does not trust the issuer {0}")]
    UntrustedIssuer(String),
    #[error("it is not valid: {0}")]
    Invalid(String),
    #[error("no rule of the organization matches its claims; its subject is {0}")]
    NoRule(String),
    /// Not the token's fault: worth a retry.
    #[error("the keys of the issuer cannot be read: {0}")]
    KeysUnavailable(Failure),
    #[error("too many tokens of this issuer are being checked")]
    Crowded,
}
