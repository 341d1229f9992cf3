//! Where the server is and who we are: flags, variables and the profile file, put together; and the connection itself.
//!
//! From top to bottom: `tokens` → `identity` → `link` → `options` → `profile` → `secret`.

pub mod link;
pub mod options;
pub mod profile;
pub mod secret;
pub mod tokens;
