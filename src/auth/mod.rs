//! Who calls: members with their roles, and the tokens that stand for them. Knows nothing of HTTP.

mod accounts;
mod change;
mod declared;
mod load;
mod member;
mod members;
mod permission;
mod stored;
mod token;
mod token_text;
mod tokens;

#[cfg(test)]
mod tests;

pub use accounts::{Accounts, AccountsError, Caller, Unauthenticated};
pub use member::{MEMBERS_MAX, Member, MemberEntry, NewMember};
pub use permission::Permission;
pub use token::{NewToken, OpenToken, Token, TokenList};
pub use token_text::{TokenHash, TokenText};
