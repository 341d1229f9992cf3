//! Members with their roles, their credentials, and the tokens that authenticate them. Knows nothing of HTTP.
//!
//! Changes are ordered by [`Ordered`](store::Ordered). Unlike pipelines, accounts have one copy in memory, in which
//! readers see changes immediately: a revoked token must stop working before its revocation is durable, and every
//! request reads the maps without a lock. Lists wait until the returned state is durable.
//!
//! Each file uses only those before it: token_text, token, tokens_by_hash, member, password, attempts, stored, change,
//! accounts, tokens, trust, sign_ins, invitations, members, exchanges, declaration.

mod accounts;
mod attempts;
mod change;
mod declaration;
mod exchanges;
mod invitations;
mod member;
mod members;
mod password;
mod sign_ins;
mod stored;
mod token;
mod token_text;
mod tokens;
mod tokens_by_hash;
mod trust;

#[cfg(test)]
mod tests;

pub use accounts::{Accounts, AccountsError, Caller, Identity, Unauthenticated};
pub use attempts::{AttemptLimits, TooSoon, Visitor, network};
pub use change::{RevocationReason, SignInMethod};
pub use declaration::member_differences;
pub use exchanges::TrustedJob;
pub use member::{MEMBERS_MAX, Member, MemberEntry, MemberUpdate, NewMember, Permission, ProviderLink};
pub use members::ProvidedPerson;
pub use password::Password;
pub use sign_ins::{KNOWN_SECONDS, NewSignIn, Proof, known_browser_label};
pub use stored::retry_scopes;
#[cfg(test)]
pub use token::TokenKind;
pub use token::{Grants, NewToken, OpenToken, SignInLimits, SourceId, Token, Trust, Trusted};
#[cfg(test)]
pub use token_text::TokenHash;
pub use token_text::{KnownToken, TokenText};
