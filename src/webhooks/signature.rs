//! Signatures of the Standard Webhooks scheme: HMAC-SHA256 over `{id}.{timestamp}.{body}`. A few lines over the `hmac`
//! crate; the scheme's own crate only signs with one secret and reads the clock itself.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use accounts::secrets::SecretValue;
use domain::Malformed;

const PREFIX: &str = "whsec_";
const FORM: Malformed = Malformed("must be whsec_ and the base64 of 24 to 64 bytes");
/// The scheme's limits on the length of a key.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The output length of the signing hash; a longer key adds nothing.
const NEW_KEY_BYTES: usize = 32;

/// The signing key of a webhook. Wiped on drop; `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret {
    text: SecretValue,
    key: Zeroizing<Vec<u8>>,
}

impl WebhookSecret {
    /// Allows everything that [`Self::parse`] does, and a little more.
    pub const PATTERN: &str = "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$";

    pub fn generate() -> Self {
        let mut key = Zeroizing::new([0; NEW_KEY_BYTES]);
        rand::Rng::fill_bytes(&mut rand::rng(), key.as_mut_slice());
        let encoded = Zeroizing::new(STANDARD.encode(key.as_slice()));
        let text = Zeroizing::new([PREFIX, &encoded].concat());
        Self::parse(&text).expect("it has the form it was given")
    }

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let encoded = text.strip_prefix(PREFIX).ok_or(FORM)?;
        let key = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| FORM)?);
        if !KEY_BYTES.contains(&key.len()) {
            return Err(FORM);
        }
        Ok(Self { text: SecretValue::parse(text)?, key })
    }

    pub fn text(&self) -> &SecretValue {
        &self.text
    }

    fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key of any length will do");
        let mac = mac.chain_update(format!("{id}.{seconds}.")).chain_update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

/// The value of `webhook-signature`: one signature for each secret.
pub fn signature(secrets: &[WebhookSecret], id: &str, seconds: i64, body: &[u8]) -> String {
    let signatures: Vec<_> = secrets.iter().map(|secret| secret.sign(id, seconds, body)).collect();
    signatures.join(" ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// The example from the tests of the scheme's own libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    #[test]
    fn a_known_message_has_its_known_signature() {
        let secret = WebhookSecret::parse(SECRET).unwrap();
        assert_eq!(signature(std::slice::from_ref(&secret), ID, 1_614_265_330, BODY), SIGNATURE);
        for (id, seconds, body) in
            [("msg_x", 1_614_265_330, BODY), (ID, 1_614_265_331, BODY), (ID, 1_614_265_330, b"{}")]
        {
            assert_ne!(signature(std::slice::from_ref(&secret), id, seconds, body), SIGNATURE);
        }
    }

    #[test]
    fn while_a_secret_is_replaced_both_sign() {
        let [old, new] = [WebhookSecret::parse(SECRET).unwrap(), WebhookSecret::generate()];
        let both = signature(&[new.clone(), old], ID, 1_614_265_330, BODY);
        let alone = signature(&[new], ID, 1_614_265_330, BODY);
        assert_eq!(both, format!("{alone} {SIGNATURE}"));
    }

    #[test]
    fn a_secret_has_the_form_of_the_scheme() {
        let made = WebhookSecret::generate();
        assert_eq!(WebhookSecret::parse(made.text().reveal()).unwrap(), made);
        assert_ne!(WebhookSecret::generate(), made);
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        let pattern = regex::Regex::new(WebhookSecret::PATTERN).unwrap();
        for bytes in 24..=64 {
            assert!(WebhookSecret::parse(&of(bytes)).is_ok() && pattern.is_match(&of(bytes)), "{bytes}");
        }
        for bad in
            [of(23), of(65), "whsec_".to_owned(), "whsec_!".to_owned(), of(24).replace("whsec_", ""), of(32) + " "]
        {
            assert!(WebhookSecret::parse(&bad).is_err(), "{bad}");
        }
        assert_eq!(format!("{made:?}"), "WebhookSecret(…)");
    }
}
