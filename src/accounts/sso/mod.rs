//! Single sign-on: OpenID Connect with the authorization code flow, PKCE, state and nonce. Determines a person's
//! identity from a provider that an organization file names, and their role from their groups. Finds no members (see
//! `auth`), and knows nothing of HTTP handlers.
//!
//! A sign-in has two halves. [`SingleSignOn::begin`] creates the provider's URL, and a sealed text for a cookie of the
//! same browser, which contains all that the second half needs: so the server stores nothing for browsers that never
//! come back. [`SingleSignOn::finish`] opens it, exchanges the code, and checks the ID token.
//!
//! Each file uses only those before it: jwt, client, pending, provider, discovery, code_flow. `identities` also uses
//! the client, the cache, claims and signed tokens (`jwt`).

mod client;
mod code_flow;
mod discovery;
mod jwt;
mod pending;
mod provider;

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use code_flow::random_text;
use discovery::{Discovery, Metadata};
use pending::{FinishedStates, Pending};

use crate::auth::ProvidedPerson;
use crate::secrets::SealingKey;
use domain::{Identifier, Timestamp};

pub use client::{Failure, Keeping, Kept, ProviderClient, said};
pub use discovery::{description_url, fetch_keys};
pub use jwt::{Claims, Expected, KeySet, Purpose, SignedToken, Unverified};
pub use pending::{PENDING_SECONDS, ReturnPath};
pub use provider::{ClientSecret, GROUPS_CLAIM, GroupRole, NAME_CLAIM, PROVIDERS_MAX, Provider, check_issuer};

/// Concurrently finished sign-ins, each with one to three requests to its provider. Anybody can start one.
const FINISHING_MAX: usize = 32;

/// Separates the organization from the random text in a state. In a cluster, it tells which node began the sign-in.
const OF_STATE: char = '~';

/// The organization of a sign-in that comes back with this state, if it is one of ours.
pub fn organization_of(state: &str) -> Option<&str> {
    state.split_once(OF_STATE).map(|(organization, _)| organization)
}

pub struct SingleSignOn {
    providers: HashMap<Identifier, Vec<Discovery>>,
    client: ProviderClient,
    /// New with each start.
    key: SealingKey,
    finished: Mutex<FinishedStates>,
    finishing: Semaphore,
}

/// The first half of a sign-in.
pub struct Begun {
    /// The URL to which the browser is redirected.
    pub location: String,
    /// For a cookie of the browser.
    pub sealed: String,
}

/// The parameters with which a browser returns from a provider.
#[derive(Default)]
pub struct Callback<'a> {
    pub provider: &'a str,
    /// The cookie.
    pub sealed: Option<&'a str>,
    pub state: &'a str,
    pub code: Option<&'a str>,
    pub error: Option<&'a str>,
    /// The issuer of the answer (RFC 9207), if the provider names it.
    pub issuer: Option<&'a str>,
}

/// The second half of a sign-in that this browser began.
pub struct Finished {
    pub organization: Identifier,
    pub return_path: ReturnPath,
    pub outcome: Result<ProvidedPerson, Failure>,
}

impl SingleSignOn {
    pub fn new(declared: impl IntoIterator<Item = (Identifier, Vec<Provider>)>) -> Self {
        let known = |(organization, providers): (Identifier, Vec<Provider>)| {
            (organization, providers.into_iter().map(Discovery::new).collect())
        };
        Self {
            providers: declared.into_iter().map(known).collect(),
            client: ProviderClient::default(),
            key: SealingKey::generate(),
            finished: Mutex::default(),
            finishing: Semaphore::new(FINISHING_MAX),
        }
    }

    /// An organization that does not exist looks like one without providers.
    pub fn providers(&self, organization: &str) -> impl Iterator<Item = &Provider> {
        self.providers.get(organization).into_iter().flatten().map(|discovery| &discovery.provider)
    }

    fn find(&self, organization: &str, provider: &str) -> Option<(&Identifier, &Discovery)> {
        let (organization, providers) = self.providers.get_key_value(organization)?;
        Some((organization, providers.iter().find(|discovery| discovery.provider.id.as_str() == provider)?))
    }

    pub async fn begin(
        &self,
        (organization, provider): (&str, &str),
        return_path: &ReturnPath,
        redirect_uri: &str,
        now: Timestamp,
    ) -> Result<Begun, Failure> {
        let (_, discovery) = self.find(organization, provider).ok_or(Failure::UnknownProvider)?;
        let metadata = discovery.metadata(&self.client).await?;
        let pending = Pending {
            state: format!("{organization}{OF_STATE}{}", random_text()),
            nonce: random_text(),
            verifier: random_text(),
            organization: organization.to_owned(),
            provider: provider.to_owned(),
            redirect_uri: redirect_uri.to_owned(),
            return_path: return_path.as_str().to_owned(),
            expires_at_millis: now.as_millis() + PENDING_SECONDS * 1_000,
        };
        let location = code_flow::url(&discovery.provider, &metadata, &pending)?;
        Ok(Begun { location: location.into(), sealed: pending.seal(&self.key) })
    }

    /// `Err` if this browser has not begun such a sign-in: then the organization is unknown.
    pub async fn finish(&self, callback: Callback<'_>, now: Timestamp) -> Result<Finished, Failure> {
        let pending = Pending::open(&self.key, callback.sealed, (callback.provider, callback.state), now)?;
        // Before the code is exchanged: of two concurrent calls, one continues.
        if !self.finished.lock().enter(&pending.state) {
            return Err(Failure::NotUnderWay);
        }
        let found = self.find(&pending.organization, &pending.provider);
        let (organization, discovery) = found.ok_or(Failure::NotUnderWay)?;
        Ok(Finished {
            organization: organization.clone(),
            return_path: ReturnPath::parse(&pending.return_path).unwrap_or_default(),
            outcome: self.person((organization, discovery), &pending, &callback, now).await,
        })
    }

    async fn person(
        &self,
        (organization, discovery): (&Identifier, &Discovery),
        pending: &Pending,
        callback: &Callback<'_>,
        now: Timestamp,
    ) -> Result<ProvidedPerson, Failure> {
        let provider = &discovery.provider;
        // Before anything is sent: the code of one provider must not be given to another.
        if callback.issuer.is_some_and(|issuer| issuer != provider.issuer) {
            return Err(Failure::invalid("the answer is of another issuer"));
        }
        if let Some(error) = callback.error {
            return Err(Failure::Denied(said(error)));
        }
        let code = callback.code.ok_or_else(|| Failure::invalid("there is neither a code nor an error"))?;
        let _place = self.finishing.try_acquire().map_err(|_| Failure::Overloaded)?;
        let metadata = discovery.metadata(&self.client).await?;
        let response = code_flow::exchange(provider, &metadata, code, pending, &self.client).await?;
        let verified = |known: &Metadata| code_flow::verified(provider, known, &response, &pending.nonce, now);
        let ask = async || discovery.ask(&self.client).await;
        let (subject, mut claims) = discovery.found.check(&metadata, ask, verified).await??;
        if !claims.has(&provider.groups_claim) || !claims.has(&provider.name_claim) {
            claims.complete(code_flow::user_info(&metadata, &response.access_token, &subject, &self.client).await?);
        }
        provider.person(organization, &subject, &claims)
    }
}
