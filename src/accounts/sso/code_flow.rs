//! The authorization code flow: the provider's URL where a sign-in begins, with the random values that bind the answer
//! to it, the exchange of the code from the browser, and all checks of the ID token.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use form_urlencoded::{Serializer, byte_serialize};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use url::Url;

use super::client::{Failure, ProviderClient, said};
use super::discovery::Metadata;
use super::jwt::{Claims, Expected, Purpose, SignedToken, Unverified};
use super::pending::Pending;
use super::provider::Provider;
use domain::Timestamp;

const JSON: &str = "application/json";

/// The answer to a code. Has no `Debug`, since it contains secrets.
#[derive(Deserialize)]
pub struct TokenResponse {
    pub access_token: String,
    token_type: String,
    id_token: Option<String>,
}

/// A refusal (RFC 6749, 5.2).
#[derive(Deserialize)]
struct ErrorResponse {
    error: String,
    error_description: Option<String>,
    error_uri: Option<String>,
}

pub async fn exchange(
    provider: &Provider,
    metadata: &Metadata,
    code: &str,
    pending: &Pending,
    http: &ProviderClient,
) -> Result<TokenResponse, Failure> {
    understood(&http.send(token_request(provider, metadata, code, pending)?).await?)
}

/// The secret is in a header, as the standard recommends, unless the provider accepts it only in the body.
fn token_request(
    provider: &Provider,
    metadata: &Metadata,
    code: &str,
    pending: &Pending,
) -> Result<Request<Vec<u8>>, Failure> {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code)
        .append_pair("code_verifier", &pending.verifier)
        .append_pair("redirect_uri", &pending.redirect_uri);
    let mut request = Request::post(metadata.token_endpoint.as_str())
        .header(ACCEPT, JSON)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    match &provider.client_secret {
        Some(secret) if !metadata.secret_in_body => {
            // Each part is form-encoded first (RFC 6749, 2.3.1).
            let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", encoded(&provider.client_id), encoded(secret.reveal()));
            request = request.header(AUTHORIZATION, secret_header("Basic", &BASE64_STANDARD.encode(pair))?);
        }
        secret => {
            form.append_pair("client_id", &provider.client_id);
            if let Some(secret) = secret {
                form.append_pair("client_secret", secret.reveal());
            }
        }
    }
    request.body(form.finish().into_bytes()).map_err(|error| Failure::Invalid(error.to_string()))
}

fn secret_header(scheme: &str, secret: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::try_from(format!("{scheme} {secret}"))
        .map_err(|_| Failure::invalid("the access token cannot stand in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn understood(answer: &Response<Vec<u8>>) -> Result<TokenResponse, Failure> {
    // Without the parser's reason, which may quote a token.
    let unclear = || Failure::invalid("the token response cannot be understood");
    if answer.body().is_empty() {
        return Err(Failure::Invalid(format!("the token response is empty, with {}", answer.status())));
    }
    if answer.status() != StatusCode::OK {
        let refusal: ErrorResponse = serde_json::from_slice(answer.body()).map_err(|_| unclear())?;
        return Err(Failure::Denied(said(&refusal.text())));
    }
    let is_json = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.to_lowercase().starts_with(JSON));
    if let Some(given) = answer.headers().get(CONTENT_TYPE).filter(|given| !is_json(given)) {
        return Err(Failure::Invalid(said(&format!("the token response has the content type {given:?}"))));
    }
    let response: TokenResponse = serde_json::from_slice(answer.body()).map_err(|_| unclear())?;
    // A client must not use a token of an unknown type (RFC 6749, 7.1).
    if !response.token_type.eq_ignore_ascii_case("bearer") {
        let why = format!("the access token is of the type {}, not Bearer", response.token_type);
        return Err(Failure::Invalid(said(&why)));
    }
    Ok(response)
}

impl ErrorResponse {
    fn text(&self) -> String {
        let description = self.error_description.as_ref().map(|text| format!(": {text}"));
        let uri = self.error_uri.as_ref().map(|uri| format!(" (see {uri})"));
        format!("{}{}{}", self.error, description.unwrap_or_default(), uri.unwrap_or_default())
    }
}

/// The subject and the claims of the ID token, if it is from this provider, for this client and this sign-in, and
/// valid.
pub fn verified(
    provider: &Provider,
    metadata: &Metadata,
    response: &TokenResponse,
    nonce: &str,
    now: Timestamp,
) -> Result<(String, Claims), Unverified> {
    let text = response.id_token.as_ref().ok_or_else(|| Unverified::invalid("there is no ID token"))?;
    let token = SignedToken::parse(text).ok_or_else(|| Unverified::invalid("the ID token cannot be read"))?;
    let purpose = Purpose::SignIn { nonce, access_token: &response.access_token };
    let expected = Expected { issuer: &provider.issuer, audience: &provider.client_id, now, purpose };
    token.verify(&metadata.keys, &expected)?;
    Ok((token.subject().to_owned(), token.claims().clone()))
}

/// Requests the claims of the user info endpoint: many providers keep ID tokens small and return groups only there. The
/// subject must be that of the ID token.
pub async fn user_info(
    metadata: &Metadata,
    access_token: &str,
    subject: &str,
    http: &ProviderClient,
) -> Result<Map<String, Value>, Failure> {
    let Some(endpoint) = &metadata.userinfo_endpoint else { return Ok(Map::new()) };
    let bearer = secret_header("Bearer", access_token)?;
    let request = Request::get(endpoint.as_str()).header(ACCEPT, JSON).header(AUTHORIZATION, bearer);
    let request = request.body(Vec::new()).map_err(|error| Failure::Invalid(error.to_string()))?;
    let answer = http.send(request).await?;
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

/// A random state, nonce or verifier: 256 bits, as 43 characters, the minimum that PKCE allows.
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

    use super::super::client::SAID_LENGTH_MAX;
    use super::super::provider::{ClientSecret, GROUPS_CLAIM, NAME_CLAIM};
    use super::*;
    use domain::Identifier;

    fn provider() -> Provider {
        Provider {
            id: Identifier::parse("keycloak").unwrap(),
            name: "Keycloak".to_owned(),
            issuer: "https://id.example".to_owned(),
            client_id: "lock&keeper".to_owned(),
            client_secret: None,
            scopes: Vec::new(),
            groups_claim: GROUPS_CLAIM.to_owned(),
            name_claim: NAME_CLAIM.to_owned(),
            roles: Vec::new(),
            default_role: None,
        }
    }

    fn metadata() -> Metadata {
        Metadata {
            authorization_endpoint: "https://id.example/auth?tenant=1".parse().unwrap(),
            token_endpoint: "https://id.example/token".parse().unwrap(),
            userinfo_endpoint: None,
            secret_in_body: false,
            keys: serde_json::from_str(r#"{ "keys": [] }"#).unwrap(),
        }
    }

    fn pending() -> Pending {
        Pending {
            state: "state-1".to_owned(),
            nonce: "nonce-1".to_owned(),
            verifier: "verifier-1".to_owned(),
            organization: "acme".to_owned(),
            provider: "keycloak".to_owned(),
            redirect_uri: "https://lock.example/auth/oidc/keycloak/callback".to_owned(),
            return_path: "/acme".to_owned(),
            expires_at_millis: 1_000,
        }
    }

    /// The header for the secret, and the body.
    fn sent(provider: &Provider, metadata: &Metadata) -> (Option<String>, String) {
        let request = token_request(provider, metadata, "code 1", &pending()).unwrap();
        assert_eq!(
            (request.method().as_str(), request.uri().to_string().as_str()),
            ("POST", "https://id.example/token")
        );
        let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(header(CONTENT_TYPE).unwrap(), "application/x-www-form-urlencoded");
        (header(AUTHORIZATION), String::from_utf8(request.body().clone()).unwrap())
    }

    const FORM: &str = "grant_type=authorization_code&code=code+1&code_verifier=verifier-1\
                        &redirect_uri=https%3A%2F%2Flock.example%2Fauth%2Foidc%2Fkeycloak%2Fcallback";

    #[test]
    fn the_secret_is_in_the_header_or_in_the_body() {
        let (mut provider, mut metadata) = (provider(), metadata());
        let with_id = format!("{FORM}&client_id=lock%26keeper");
        assert_eq!(sent(&provider, &metadata), (None, with_id.clone()), "a public client");
        provider.client_secret = Some(ClientSecret::new("a:b %+ä"));
        let (header, body) = sent(&provider, &metadata);
        assert_eq!(body, FORM);
        let pair = BASE64_STANDARD.decode(header.unwrap().strip_prefix("Basic ").unwrap()).unwrap();
        assert_eq!(String::from_utf8(pair).unwrap(), "lock%26keeper:a%3Ab+%25%2B%C3%A4");
        metadata.secret_in_body = true;
        assert_eq!(sent(&provider, &metadata), (None, format!("{with_id}&client_secret=a%3Ab+%25%2B%C3%A4")));
        // RFC 6749, 2.3.1.
        metadata.secret_in_body = false;
        provider.client_id = "s6BhdRkqt3".to_owned();
        provider.client_secret = Some(ClientSecret::new("7Fjfp0ZBr1KtDRbnfVdmIw"));
        let (header, _) = sent(&provider, &metadata);
        assert_eq!(header.unwrap(), "Basic czZCaGRSa3F0Mzo3RmpmcDBaQnIxS3REUmJuZlZkbUl3");
    }

    fn answer(status: u16, content_type: Option<&str>, body: &str) -> String {
        let mut answer = Response::builder().status(status);
        if let Some(content_type) = content_type {
            answer = answer.header(CONTENT_TYPE, content_type);
        }
        match understood(&answer.body(body.as_bytes().to_vec()).unwrap()) {
            Ok(response) => format!("{} {:?}", response.access_token, response.id_token),
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn a_token_response_is_json_with_a_bearer_token() {
        let json = Some("application/json; charset=utf-8");
        let good = r#"{ "access_token": "a", "token_type": "BEARER", "id_token": "i", "expires_in": 7, "other": [] }"#;
        assert_eq!(answer(200, json, good), r#"a Some("i")"#);
        assert_eq!(answer(200, None, r#"{ "access_token": "a", "token_type": "bearer" }"#), "a None");
        for (status, content_type, body, expected) in [
            (200, Some("text/html"), good, "content type"),
            (200, json, "", "empty"),
            (200, json, "{}", "cannot be understood"),
            (200, json, r#"{ "access_token": "a", "id_token": "i" }"#, "cannot be understood"),
            (200, json, r#"{ "token_type": "bearer", "id_token": "i" }"#, "cannot be understood"),
            (200, json, r#"{ "access_token": "a", "token_type": "bearer", "id_token": 7 }"#, "cannot be understood"),
            (200, json, r#"{ "access_token": "a", "token_type": "mac" }"#, "of the type mac, not Bearer"),
            (201, json, good, "cannot be understood"),
            (400, json, "", "empty"),
            (400, json, "<html>", "cannot be understood"),
            (500, json, "{}", "cannot be understood"),
        ] {
            let found = answer(status, content_type, body);
            assert!(found.starts_with("the answer of the provider is invalid") && found.contains(expected), "{found}");
        }
    }

    #[test]
    fn the_reason_of_a_refusal_is_told_in_one_line() {
        for (body, expected) in [
            (r#"{ "error": "invalid_grant" }"#, "invalid_grant"),
            (r#"{ "error": "x", "error_description": "a\nb", "error_uri": "https://e" }"#, r"x: a\nb (see https://e)"),
        ] {
            assert_eq!(answer(400, Some("text/plain"), body), format!("the provider refused: {expected}"));
        }
        let long = format!(r#"{{ "error": "{}" }}"#, "x".repeat(1_000));
        assert_eq!(answer(401, None, &long).len(), "the provider refused: ".len() + SAID_LENGTH_MAX);
    }

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
