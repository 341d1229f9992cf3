//! Members with their roles, what they sign in with, and the tokens that authenticate them. Knows nothing of HTTP.
//!
//! Changes are ordered by [`Ordered`](store::Ordered). Unlike pipelines, accounts have one copy in memory, which
//! readers see at once: a revoked token must stop working before its revocation is durable, and every request reads the
//! maps without a lock. Lists wait until the state they show is durable.
//!
//! Each file uses only those before it: token_text, known_token, root, token, made, member, password, credentials, hashing,
//! attempts, permission, identity, revocations, exchange_records, stored, change, load, accounts, ending, trust,
//! known_browser, sign_ins,
//! invitations, members, tokens, links, exchanges, declared.

mod accounts;
mod attempts;
mod change;
mod credentials;
mod declared;
mod ending;
mod exchange_records;
mod exchanges;
mod hashing;
mod identity;
mod invitations;
mod known_browser;
mod known_token;
mod links;
mod load;
mod made;
mod member;
mod members;
mod password;
mod permission;
mod revocations;
mod root;
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
pub use declared::member_differences;
pub use exchanges::TrustedJob;
pub use known_browser::{KNOWN_SECONDS, known_browser_label};
pub use known_token::KnownToken;
pub use links::ProvidedPerson;
pub use load::retry_scopes;
pub use member::{MEMBERS_MAX, Member, MemberEntry, MemberUpdate, NewMember, ProviderLink};
pub use password::Password;
pub use permission::Permission;
pub use root::{Grants, SourceId, Trust, Trusted};
pub use sign_ins::{NewSignIn, Proof, Unproven};
#[cfg(test)]
pub use token::TokenKind;
pub use token::{NewToken, OpenToken, SignInLimits, Token};
#[cfg(test)]
pub use token_text::TokenHash;
pub use token_text::TokenText;
