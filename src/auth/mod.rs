//! Who calls: members with their roles, and the tokens that stand for them. Knows nothing of HTTP.

mod accounts;
mod load;
mod permission;
mod stored;
mod token_text;

#[cfg(test)]
mod tests;

pub use accounts::{Accounts, AccountsError, Caller, Member, NewToken, OpenToken, Token, Unauthenticated};
pub use permission::Permission;
pub use token_text::{TokenHash, TokenText};
