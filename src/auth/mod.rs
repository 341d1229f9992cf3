//! Members with their roles, and the tokens that authenticate them. Knows nothing of HTTP.
//!
//! Changes are ordered by [`Ordered`](crate::store::Ordered). Unlike pipelines, accounts have one copy in memory, which
//! readers see at once: a revoked token must stop working before its revocation is durable, and every request reads the
//! maps without a lock. Lists wait until the state they show is durable.
//!
//! Each file uses only those before it: token_text, token, member, permission, revocations, stored, change, load, accounts,
//! members and tokens, declared.

mod accounts;
mod change;
mod declared;
mod load;
mod member;
mod members;
mod permission;
mod revocations;
mod stored;
mod token;
mod token_text;
mod tokens;

#[cfg(test)]
mod tests;

pub use accounts::{Accounts, AccountsError, Caller, Identity, Unauthenticated};
pub use change::RevocationReason;
pub use member::{MEMBERS_MAX, Member, MemberEntry, MemberUpdate, NewMember};
pub use permission::Permission;
pub use token::{NewToken, OpenToken, Token, TokenList};
pub use token_text::{TokenHash, TokenText};
