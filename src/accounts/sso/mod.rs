//! Single sign-on: OpenID Connect with the authorization code flow, PKCE, state and nonce. Says who somebody is according
//! to a provider that an organization file names, and which role their groups have; it knows neither members nor HTTP
//! handlers.
//!
//! A sign-in has two halves. [`SingleSignOn::begin`] makes the address at the provider, and a sealed text for a cookie of
//! the same browser, which has all that the second half needs: so the server keeps nothing for browsers that never come
//! back. [`SingleSignOn::finish`] opens it, exchanges the code, and checks the ID token.
//!
//! Each file uses only those before it: provider, return_path, claims, failure, person, pending, client, kept, jwt,
//! discovery, authorization, tokens, service. `identities` uses the client, what is kept of providers, claims and signed
//! tokens (`jwt`) too.

mod authorization;
mod claims;
mod client;
mod discovery;
mod failure;
mod jwt;
mod kept;
mod pending;
mod person;
mod provider;
mod return_path;
mod service;
mod tokens;

pub use claims::Claims;
pub use client::ProviderClient;
pub use discovery::{description_url, fetch_keys};
pub use failure::Failure;
pub use jwt::{Expected, KeySet, Purpose, SignedToken, Unverified};
pub use kept::{Keeping, Kept};
pub use pending::PENDING_SECONDS;
pub use person::SignedIn;
pub use provider::{ClientSecret, GROUPS_CLAIM, GroupRole, NAME_CLAIM, PROVIDERS_MAX, Provider, check_issuer};
pub use return_path::ReturnPath;
pub use service::{Begun, Callback, SingleSignOn, organization_of};
pub use tokens::said;
