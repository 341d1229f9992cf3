//! Why a sign-in at a provider has failed.

/// The texts are for the operator's log: they may name addresses, and never have a token or a code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("the organization has no such provider")]
    UnknownProvider,
    /// It took too long, began in another browser, or has been finished already.
    #[error("there is no such sign-in under way in this browser")]
    NotUnderWay,
    /// The provider has refused, or the person has.
    #[error("the provider refused: {0}")]
    Denied(String),
    #[error("the provider cannot be reached: {0}")]
    Unavailable(String),
    /// What the provider has sent is not to be trusted.
    #[error("the answer of the provider is invalid: {0}")]
    Invalid(String),
    #[error("no group of the person has a role")]
    NoRole,
    #[error("the provider names no name or e-mail that can be the name of a member")]
    NoName,
    #[error("too many sign-ins are being finished")]
    Overloaded,
}

impl Failure {
    pub fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into())
    }
}
