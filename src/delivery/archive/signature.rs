//! AWS Signature Version 4: proves who sends a request, and that nobody changed it on its way. Pure.

use ring::digest::{SHA256, digest};
use ring::hmac::{HMAC_SHA256, Key, Tag, sign};
use zeroize::Zeroizing;

use outbound::percent_encoded;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

#[derive(Clone)]
pub struct Credentials {
    pub key_id: String,
    pub secret: Zeroizing<String>,
    /// Of credentials that expire.
    pub session_token: Option<Zeroizing<String>>,
}

/// A request, as far as it is signed.
pub struct Request<'a> {
    pub method: &'a str,
    /// Encoded, as it is sent.
    pub path: &'a str,
    /// Likewise, with its parameters sorted by name.
    pub query: &'a str,
    /// With lower-case names, sorted. `host` must be among them.
    pub headers: &'a [(&'a str, &'a str)],
    /// The digits of the SHA-256 of its body.
    pub body_hash: &'a str,
}

/// For whom and when it is signed.
pub struct Scope<'a> {
    pub region: &'a str,
    pub service: &'a str,
    /// Such as `20130524T000000Z`.
    pub at: &'a str,
}

/// The value of the header `Authorization`.
pub fn authorization(request: &Request<'_>, scope: &Scope<'_>, credentials: &Credentials) -> String {
    let date = scope.at.get(..8).unwrap_or_default();
    let place = format!("{date}/{}/{}/aws4_request", scope.region, scope.service);
    let names = request.headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let to_sign = format!("{ALGORITHM}\n{}\n{place}\n{}", scope.at, hash(canonical(request, &names).as_bytes()));
    let first = Zeroizing::new(format!("AWS4{}", *credentials.secret));
    let mut key = hmac(first.as_bytes(), date);
    for part in [scope.region, scope.service, "aws4_request"] {
        key = hmac(key.as_ref(), part);
    }
    let signature = digits(hmac(key.as_ref(), &to_sign).as_ref());
    format!("{ALGORITHM} Credential={}/{place},SignedHeaders={names},Signature={signature}", credentials.key_id)
}

/// The digits of the SHA-256.
pub fn hash(bytes: &[u8]) -> String {
    digits(digest(&SHA256, bytes).as_ref())
}

pub fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A path of these names, encoded.
pub fn encoded_path<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("/{}", percent_encoded(name))).collect()
}

fn canonical(request: &Request<'_>, names: &str) -> String {
    let headers: String = request.headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let Request { method, path, query, body_hash, .. } = request;
    format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{body_hash}")
}

fn hmac(key: &[u8], text: &str) -> Tag {
    sign(&Key::new(HMAC_SHA256, key), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(key_id: &str, secret: &str) -> Credentials {
        Credentials { key_id: key_id.to_owned(), secret: Zeroizing::new(secret.to_owned()), session_token: None }
    }

    fn signature(of: &str) -> &str {
        of.rsplit_once("Signature=").map_or("", |(_, signature)| signature)
    }

    /// The examples of the chapter on signing in the API reference of Amazon S3.
    #[test]
    fn the_examples_of_amazon_s3_are_signed_as_published() {
        let credentials = credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let scope = Scope { region: "us-east-1", service: "s3", at: "20130524T000000Z" };
        let (host, at) = (("host", "examplebucket.s3.amazonaws.com"), ("x-amz-date", "20130524T000000Z"));
        let empty = hash(b"");
        let nothing = ("x-amz-content-sha256", empty.as_str());
        let get = [host, ("range", "bytes=0-9"), nothing, at];
        let request = Request { method: "GET", path: "/test.txt", query: "", headers: &get, body_hash: &empty };
        assert_eq!(
            authorization(&request, &scope, &credentials),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        let body = hash(b"Welcome to Amazon S3.");
        let put = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            host,
            ("x-amz-content-sha256", body.as_str()),
            at,
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ];
        let path = encoded_path(["test$file.text"]);
        let request = Request { method: "PUT", path: &path, query: "", headers: &put, body_hash: &body };
        assert_eq!(
            signature(&authorization(&request, &scope, &credentials)),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
        for (query, expected) in [
            ("lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
            ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ] {
            let headers = [host, nothing, at];
            let request = Request { method: "GET", path: "/", query, headers: &headers, body_hash: &empty };
            assert_eq!(signature(&authorization(&request, &scope, &credentials)), expected, "{query}");
        }
    }

    /// `get-vanilla` and `post-vanilla` of the published test suite for Signature Version 4.
    #[test]
    fn the_cases_of_the_test_suite_are_signed_as_published() {
        let credentials = credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
        let scope = Scope { region: "us-east-1", service: "service", at: "20150830T123600Z" };
        let headers = [("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")];
        let empty = hash(b"");
        for (method, expected) in [
            ("GET", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("POST", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ] {
            let request = Request { method, path: "/", query: "", headers: &headers, body_hash: &empty };
            assert_eq!(signature(&authorization(&request, &scope, &credentials)), expected, "{method}");
        }
    }
}
