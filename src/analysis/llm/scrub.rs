//! Masks everything that looks like a credential, even if nobody declared it a secret.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

const STARS: &str = "***";

/// Patterns and their replacements.
const RULES: &[(&str, &str)] = &[
    // Tokens with a known prefix: ours, and those of clouds, repositories and models.
    (r"\blk_[0-9a-z]{16,}", STARS),
    (r"\bwhsec_[0-9a-z+/=]{16,}", STARS),
    (r"\b(?-i:(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})\b", STARS),
    (
        r"\b(?:gh[pousr]_|github_pat_|glpat-|npm_|dckr_pat_|hvs\.|xox[abeprs]-|sk-|pk_live_|sk_live_|rk_live_|shpat_|dop_v1_|pypi-)[0-9a-z_-]{16,}",
        STARS,
    ),
    (r"\b(?-i:AIza[0-9A-Za-z_-]{30,})", STARS),
    // JSON web tokens.
    (r"\b(?-i:eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}(?:\.[0-9A-Za-z_-]*)?)", STARS),
    // HTTP headers.
    (r"\b(bearer|basic)\s+[0-9a-z._~+/=-]{6,}", "$1 ***"),
    (r"\b((?:proxy-)?authorization|cookie|set-cookie|x-api-key|x-auth-token)(\W{0,3}:\s*)[^\r\n]+", "$1$2***"),
    // In URLs.
    (r"\b([a-z][a-z0-9+.-]{1,20}://)[^\s/@]+@", "$1***@"),
    (
        r"([?&](?:x-amz-\w+|x-goog-\w+|sig|signature|token|access_token|key|api_?key|code|password|secret)=)[^&\s\x22']+",
        "$1***",
    ),
    // Anything with a telling name.
    (
        r#"([\w.-]*(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)[\w.-]*["']?\s*(?:=>|[=:])\s*["']?)[^\s"',;&]{3,}"#,
        "$1***",
    ),
    (r"(--?[\w-]*(?:password|passwd|secret|token|api-?key)[\w-]*\s+)[^\s-]\S{2,}", "$1***"),
];

static COMPILED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let compiled = |(pattern, replacement): &(&str, &'static str)| {
        let pattern = RegexBuilder::new(pattern).unicode(false).case_insensitive(true).build();
        (pattern.expect("the patterns are constants, which a test compiles"), *replacement)
    };
    RULES.iter().map(compiled).collect()
});

pub(super) fn scrubbed(text: &str) -> String {
    let mut bytes = Cow::Borrowed(text.as_bytes());
    for (pattern, replacement) in COMPILED.iter() {
        if let Cow::Owned(replaced) = pattern.replace_all(&bytes, replacement.as_bytes()) {
            bytes = Cow::Owned(replaced);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Recognises the lines of a private key; lines must come in order.
#[derive(Default)]
pub(super) struct KeyBlocks {
    inside: bool,
}

impl KeyBlocks {
    pub fn hides(&mut self, line: &str) -> bool {
        let begins = line.contains("-----BEGIN ") && line.contains("PRIVATE KEY");
        let ends = line.contains("-----END ");
        let hidden = self.inside || begins;
        self.inside = hidden && !ends;
        hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_looks_like_a_credential_is_masked() {
        for (text, secret) in [
            ("token lk_0123456789abcdefghijABCDEFGHIJ0123456 used", "lk_0123"),
            ("aws: AKIAIOSFODNN7EXAMPLE", "AKIAIOSF"),
            ("Authorization: Bearer abc.def-ghi", "abc.def"),
            ("curl -H 'authorization: token 12345678'", "12345678"),
            ("git clone https://bot:hunter22@git.example/x.git", "hunter22"),
            ("git clone https://onlytoken@git.example/x.git", "onlytoken"),
            ("DB_PASSWORD=hunter22 ./run", "hunter22"),
            ("{\"apiKey\": \"hunter22\"}", "hunter22"),
            ("'client_secret' => 'hunter22',", "hunter22"),
            ("mysql --password hunter22 -u x", "hunter22"),
            ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "eyJzdWIi"),
            ("GET https://s3.example/x?X-Amz-Signature=hunter22&y=1", "hunter22"),
            ("pushing with ghp_0123456789abcdefghij", "ghp_0123"),
        ] {
            assert!(!scrubbed(text).contains(secret), "{}", scrubbed(text));
        }
    }

    #[test]
    fn other_text_is_unchanged() {
        for text in
            ["error: token expired", "no password given", "https://git.example/x.git: not found", "naïve: ✗ 12:30"]
        {
            assert_eq!(scrubbed(text), text);
        }
    }

    #[test]
    fn private_keys_are_hidden_from_their_first_line_to_their_last() {
        let mut blocks = KeyBlocks::default();
        let lines = ["a", "-----BEGIN OPENSSH PRIVATE KEY-----", "b3BlbnNz", "-----END OPENSSH PRIVATE KEY-----", "b"];
        assert_eq!(lines.map(|line| blocks.hides(line)), [false, true, true, true, false]);
    }
}
