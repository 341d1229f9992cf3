//! Signatures, right and wrong.

use ring::hmac;
use serde_json::{Value, json};

use super::super::keys::Algorithm;
use super::{ALGORITHMS, Signer, Unverified, decoded, encoded, key_set, outcome, put_together, usual_claims};

const WRONG: &str = "the signature is wrong";

fn verify(key: &Value, algorithm: &str, signed: &[u8], signature: &[u8]) -> Result<(), Unverified> {
    let keys = key_set([key.clone()]);
    let algorithm = Algorithm::find(algorithm).unwrap();
    keys.find(None, algorithm)?.verify(algorithm, signed, signature)
}

#[test]
fn every_algorithm_accepts_its_own_signature_and_no_changed_one() {
    for name in ALGORITHMS {
        let signer = Signer::new(name);
        let (key, signature) = (signer.public(), signer.sign(b"signed"));
        assert_eq!(verify(&key, name, b"signed", &signature), Ok(()), "{name}");
        assert_eq!(verify(&key, name, b"signee", &signature), Err(Unverified::invalid(WRONG)), "{name}");
        for at in 0..signature.len() {
            let mut changed = signature.clone();
            changed[at] ^= 1 << (at % 8);
            assert_eq!(verify(&key, name, b"signed", &changed), Err(Unverified::invalid(WRONG)), "{name} at {at}");
        }
        let longer = [signature.as_slice(), &[0]].concat();
        for other in [&[], &signature[1..], &signature[..signature.len() - 1], &longer, &vec![0; signature.len()]] {
            assert_eq!(verify(&key, name, b"signed", other), Err(Unverified::invalid(WRONG)), "{name}");
        }
    }
}

#[test]
fn a_signature_by_another_key_is_wrong() {
    for name in ["ES256", "ES384", "EdDSA"] {
        let token = Signer::new(name).token(json!({}), json!({}));
        assert_eq!(outcome(&token, &Signer::new(name).keys()), WRONG, "{name}");
    }
    let other = json!({ "kty": "RSA", "e": "AQAB", "n": RFC_7515_MODULUS });
    for name in ALGORITHMS.iter().filter(|name| name.contains("S2") && !name.starts_with('E')) {
        let token = Signer::new(name).token(json!({}), json!({}));
        assert_eq!(outcome(&token, &key_set([other.clone()])), WRONG, "{name}");
    }
}

#[test]
fn an_algorithm_accepts_no_signature_of_another_one() {
    let signers = ALGORITHMS.map(Signer::new);
    for signer in &signers {
        for claimed in ALGORITHMS {
            let token = signer.token(json!({ "alg": claimed }), json!({}));
            let is_own = signer.algorithm == claimed;
            assert_eq!(outcome(&token, &signer.keys()) == "ok", is_own, "{} as {claimed}", signer.algorithm);
        }
    }
}

#[test]
fn unsigned_tokens_and_shared_secrets_are_refused() {
    let claims = usual_claims().to_string();
    for name in ["RS256", "ES256", "EdDSA"] {
        let signer = Signer::new(name);
        let key = signer.public();
        for none in ["none", "None", "NONE", "", "rs256", "ES512", "ES256K", "RSA-OAEP", "A128GCM"] {
            for signature in [Vec::new(), signer.sign(b"")] {
                let token = put_together(&json!({ "alg": none }).to_string(), &claims, |_| signature);
                let expected = format!("signatures with `{none}` are not accepted");
                assert_eq!(outcome(&token, &signer.keys()), expected);
            }
        }
        // The public key in place of a secret, in each form in which it could be used.
        let part = if name == "RS256" { "n" } else { "x" };
        let forms = [key.to_string().into_bytes(), decoded(key[part].as_str().unwrap()), b"client secret".to_vec()];
        for (algorithm, secret) in forms.iter().flat_map(|form| {
            [("HS256", hmac::HMAC_SHA256), ("HS384", hmac::HMAC_SHA384), ("HS512", hmac::HMAC_SHA512)]
                .map(|(algorithm, kind)| (algorithm, hmac::Key::new(kind, form)))
        }) {
            let token = put_together(&json!({ "alg": algorithm }).to_string(), &claims, |signed| {
                hmac::sign(&secret, signed).as_ref().to_vec()
            });
            let shared = json!({ "kty": "oct", "k": encoded(b"client secret") });
            let found = outcome(&token, &key_set([key.clone(), shared]));
            assert_eq!(found, format!("signatures with `{algorithm}` are not accepted"));
        }
    }
}

const RFC_7515_MODULUS: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
const RFC_7515_PAYLOAD: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

#[test]
fn the_examples_of_the_standards_are_right() {
    let rs256 = json!({ "kty": "RSA", "e": "AQAB", "n": RFC_7515_MODULUS });
    let es256 = json!({
        "kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    });
    let ed25519 = json!({ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" });
    for (source, key, algorithm, signed, signature) in [
        (
            "RFC 7515, A.2",
            &rs256,
            "RS256",
            format!("eyJhbGciOiJSUzI1NiJ9.{RFC_7515_PAYLOAD}"),
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
        ),
        (
            "RFC 7515, A.3",
            &es256,
            "ES256",
            format!("eyJhbGciOiJFUzI1NiJ9.{RFC_7515_PAYLOAD}"),
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
        ),
        (
            "RFC 8037, A.4",
            &ed25519,
            "EdDSA",
            "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc".to_owned(),
            "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
        ),
    ] {
        assert_eq!(verify(key, algorithm, signed.as_bytes(), &decoded(signature)), Ok(()), "{source}");
        let changed = signed.replace("eyJ", "eyK");
        assert_ne!(verify(key, algorithm, changed.as_bytes(), &decoded(signature)), Ok(()), "{source}");
    }
}

/// OpenID Connect Core 1.0, A.4.
#[test]
fn the_hash_of_an_access_token_is_that_of_the_standard() {
    let hash = |name: &str| Algorithm::find(name).unwrap().half_hash("jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y");
    assert_eq!(hash("RS256"), "77QmUPtjPfzWtF2AnpK9RQ");
    assert_eq!((hash("PS256"), hash("ES256")), (hash("RS256"), hash("RS256")));
    assert_eq!((hash("RS384").len(), hash("ES384")), (32, hash("PS384")));
    assert_eq!((hash("RS512").len(), hash("EdDSA")), (43, hash("PS512")));
}
