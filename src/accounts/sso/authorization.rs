//! The address at the provider where a sign-in begins, and the random values that bind the answer to it.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use url::Url;

use super::discovery::Metadata;
use super::failure::Failure;
use super::pending::Pending;
use super::provider::Provider;

/// For a state, a nonce or a verifier: 256 random bits. PKCE requires at least these 43 characters.
pub fn random_text() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

/// The authorization code flow with PKCE (RFC 7636).
pub fn url(provider: &Provider, metadata: &Metadata, pending: &Pending) -> Result<Url, Failure> {
    Url::parse(&pending.redirect_uri).map_err(|error| Failure::Invalid(error.to_string()))?;
    let scopes = provider.scopes.iter().map(String::as_str);
    let scopes: Vec<&str> = std::iter::once("openid").chain(scopes).collect();
    let mut url = metadata.authorization_endpoint.clone();
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &provider.client_id)
        .append_pair("state", &pending.state)
        .append_pair("code_challenge", &challenge(&pending.verifier))
        .append_pair("code_challenge_method", "S256")
        .append_pair("redirect_uri", &pending.redirect_uri)
        .append_pair("scope", &scopes.join(" "))
        .append_pair("nonce", &pending.nonce);
    Ok(url)
}

fn challenge(verifier: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::tokens::tests::{metadata, pending, provider};
    use super::*;

    /// RFC 7636, appendix B.
    #[test]
    fn the_challenge_is_that_of_the_standard() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn the_address_asks_for_a_code_and_keeps_the_verifier_secret() {
        let (mut provider, pending) = (provider(), pending());
        provider.scopes = vec!["profile".to_owned(), "groups".to_owned()];
        let url = url(&provider, &metadata(), &pending).unwrap();
        assert_eq!(
            url.as_str(),
            "https://id.example/auth?tenant=1&response_type=code&client_id=lock%26keeper&state=state-1\
             &code_challenge=xTYRBLTDt1gS3-rw_3FBVafZ0iNg9bZYBbG8fRPvkEs&code_challenge_method=S256\
             &redirect_uri=https%3A%2F%2Flock.example%2Fauth%2Foidc%2Fkeycloak%2Fcallback\
             &scope=openid+profile+groups&nonce=nonce-1"
        );
        let broken = Pending { redirect_uri: "/callback".to_owned(), ..pending };
        assert!(super::url(&provider, &metadata(), &broken).is_err());
    }

    #[test]
    fn random_texts_are_long_and_never_the_same() {
        let texts: std::collections::HashSet<String> = (0..1_000).map(|_| random_text()).collect();
        assert!(texts.len() == 1_000 && texts.iter().all(|text| text.len() == 43));
    }
}
