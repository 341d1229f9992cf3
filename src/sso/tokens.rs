//! From the code that a browser brings to the claims of a person: the exchange, and all checks of the ID token.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use openidconnect::core::{
    CoreClient, CoreClientAuthMethod, CoreIdToken, CoreIdTokenClaims, CoreIdTokenVerifier, CoreJwsSigningAlgorithm,
    CoreTokenResponse,
};
use openidconnect::http::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use openidconnect::http::{Request, StatusCode};
use openidconnect::{
    AccessToken, AccessTokenHash, AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret,
    EndpointMaybeSet, EndpointNotSet, EndpointSet, ErrorResponse, Nonce, OAuth2TokenResponse, PkceCodeVerifier,
    RedirectUrl, RequestTokenError, SignatureVerificationError, TokenResponse,
};
use serde_json::{Map, Value};

use super::claims::Claims;
use super::client::{NoAnswer, ProviderClient};
use super::discovery::Metadata;
use super::failure::Failure;
use super::provider::Provider;
use crate::outbound::error_chain;

/// Signatures with a key that only the provider has. Never `none`, and none by the client secret, which others know.
pub const SIGNATURES: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];
/// Of a text of a provider in our log.
const SAID_LENGTH_MAX: usize = 200;

pub type Client =
    CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointMaybeSet, EndpointMaybeSet>;

/// The provider as a client sees it.
pub fn client(provider: &Provider, metadata: &Metadata, redirect_uri: &str) -> Result<Client, Failure> {
    let secret = provider.client_secret.as_ref().map(|secret| ClientSecret::new(secret.reveal().to_owned()));
    let redirect_uri =
        RedirectUrl::new(redirect_uri.to_owned()).map_err(|error| Failure::Invalid(error.to_string()))?;
    let client =
        CoreClient::from_provider_metadata((**metadata).clone(), ClientId::new(provider.client_id.clone()), secret);
    Ok(client.set_redirect_uri(redirect_uri).set_auth_type(auth_type(metadata)))
}

/// In a header, as the standard recommends, unless the provider takes the secret in the body alone.
fn auth_type(metadata: &Metadata) -> AuthType {
    let methods = metadata.token_endpoint_auth_methods_supported().map_or(&[][..], Vec::as_slice);
    let in_body_alone = methods.contains(&CoreClientAuthMethod::ClientSecretPost)
        && !methods.contains(&CoreClientAuthMethod::ClientSecretBasic);
    if in_body_alone { AuthType::RequestBody } else { AuthType::BasicAuth }
}

/// What the provider gives for a code.
pub async fn exchange(
    client: &Client,
    code: &str,
    verifier: &str,
    http: &ProviderClient,
) -> Result<CoreTokenResponse, Failure> {
    let request = client.exchange_code(AuthorizationCode::new(code.to_owned()));
    let request = request.map_err(|error| Failure::Invalid(error.to_string()))?;
    request.set_pkce_verifier(PkceCodeVerifier::new(verifier.to_owned())).request_async(http).await.map_err(why)
}

fn why<E: ErrorResponse + 'static>(error: RequestTokenError<NoAnswer, E>) -> Failure {
    match error {
        RequestTokenError::Request(no_answer) => Failure::Unavailable(no_answer.0),
        RequestTokenError::ServerResponse(refusal) => Failure::Denied(said(&refusal.to_string())),
        // Not its source, which may quote a token.
        RequestTokenError::Parse(..) => Failure::invalid("the token response cannot be understood"),
        RequestTokenError::Other(why) => Failure::Invalid(said(&why)),
    }
}

/// A text of a provider as it can stand in one line of a log.
pub fn said(text: &str) -> String {
    text.chars().take(SAID_LENGTH_MAX).collect::<String>().escape_debug().to_string()
}

/// Why an ID token is not accepted.
pub enum Unverified {
    /// The provider may have a new one.
    UnknownKey,
    Failed(Failure),
}

/// The subject and the claims of the ID token, if it is from this provider, for this client and this sign-in, and valid now.
pub fn verified(
    provider: &Provider,
    metadata: &Metadata,
    response: &CoreTokenResponse,
    nonce: &str,
) -> Result<(String, Claims), Unverified> {
    let failed = |why: &str| Unverified::Failed(Failure::invalid(why));
    let token = response.id_token().ok_or_else(|| failed("there is no ID token"))?;
    let client_id = ClientId::new(provider.client_id.clone());
    let verifier =
        CoreIdTokenVerifier::new_public_client(client_id, metadata.issuer().clone(), metadata.jwks().clone())
            .set_allowed_algs(SIGNATURES);
    let claims = token.claims(&verifier, &Nonce::new(nonce.to_owned())).map_err(|error| match error {
        ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey) => {
            Unverified::UnknownKey
        }
        error => failed(&error_chain(&error)),
    })?;
    check_authorized_party(provider, claims).map_err(Unverified::Failed)?;
    if let Some(expected) = claims.access_token_hash() {
        let found = access_token_hash(token, &verifier, response.access_token());
        if found.as_ref() != Some(expected) {
            return Err(failed("the access token is not the one of the ID token"));
        }
    }
    let all = payload(token).ok_or_else(|| failed("its claims cannot be read"))?;
    Ok((claims.subject().to_string(), Claims::new(all)))
}

/// The library leaves it to us: a token that was made for another client, and merely mentions us, is not ours.
fn check_authorized_party(provider: &Provider, claims: &CoreIdTokenClaims) -> Result<(), Failure> {
    match claims.authorized_party() {
        Some(party) if party.as_str() != provider.client_id => Err(Failure::invalid("it was made for another client")),
        None if claims.audiences().len() > 1 => Err(Failure::invalid("it is for several, and does not say for whom")),
        Some(_) | None => Ok(()),
    }
}

fn access_token_hash(
    token: &CoreIdToken,
    verifier: &CoreIdTokenVerifier<'_>,
    access_token: &AccessToken,
) -> Option<AccessTokenHash> {
    let (algorithm, key) = (token.signing_alg().ok()?, token.signing_key(verifier).ok()?);
    AccessTokenHash::from_token(access_token, algorithm, key).ok()
}

/// All claims of a token that has been checked: the library's type has those of the standard alone.
fn payload(token: &CoreIdToken) -> Option<Map<String, Value>> {
    let text = token.to_string();
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Many providers keep ID tokens small, and have the groups only here. The subject must be the same.
pub async fn user_info(
    metadata: &Metadata,
    access_token: &AccessToken,
    subject: &str,
    http: &ProviderClient,
) -> Result<Map<String, Value>, Failure> {
    let Some(endpoint) = metadata.userinfo_endpoint() else { return Ok(Map::new()) };
    let bearer = HeaderValue::try_from(format!("Bearer {}", access_token.secret()));
    let mut bearer = bearer.map_err(|_| Failure::invalid("the access token cannot stand in a header"))?;
    bearer.set_sensitive(true);
    let request =
        Request::get(endpoint.url().as_str()).header(ACCEPT, "application/json").header(AUTHORIZATION, bearer);
    let request = request.body(Vec::new()).map_err(|error| Failure::Invalid(error.to_string()))?;
    let answer = http.send(request).await.map_err(|no_answer| Failure::Unavailable(no_answer.0))?;
    if answer.status() != StatusCode::OK {
        return Err(Failure::Invalid(format!("its user info endpoint answers {}", answer.status())));
    }
    let claims: Map<String, Value> = serde_json::from_slice(answer.body())
        .map_err(|_| Failure::invalid("its user info is not a JSON object; a signed one is not supported"))?;
    if claims.get("sub").and_then(Value::as_str) != Some(subject) {
        return Err(Failure::invalid("its user info is about somebody else"));
    }
    Ok(claims)
}
