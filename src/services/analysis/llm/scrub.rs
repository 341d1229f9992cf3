//! Masks everything that looks like a credential, even if nobody declared it a secret.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

const STARS: &str = "***";

/// The beginning of a word, also behind an escape such as `\n` or `%20`, whose last letter would hide it.
macro_rules! begin {
    () => {
        r"(?:\b|\\[nrt]|%[0-9a-f]{2})"
    };
}

/// A name that tells of a credential. Quotes around it may be escaped, as in JSON within JSON, and `=` or `:` may be encoded.
macro_rules! telling_name {
    () => {
        r#"(?:[\w.-]*(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key|credentials?)[\w.-]*|(?-i:\b\w*_PASS)|\b_auth|"auth)(?:\\*["']|%22)?\s*(?:=>|[=:]|%3[ad])\s*"#
    };
}

/// Patterns and their replacements.
const RULES: &[(&str, &str)] = &[
    // Tokens with a known prefix: ours, and those of clouds, repositories and models.
    (concat!(begin!(), r"lk_[0-9a-z]{16,}"), STARS),
    (concat!(begin!(), r"whsec_[0-9a-z+/=]{16,}"), STARS),
    (concat!(begin!(), r"(?-i:(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})\b"), STARS),
    (
        concat!(
            begin!(),
            r"(?:gh[pousr]_|github_pat_|gl(?:pat|rt|dt|cbt|ptt|ft|soat)-|npm_|dckr_pat_|hf_|xox[abeprs]-|xapp-|sk-|pk_live_|sk_live_|rk_live_|shpat_|dop_v1_|pypi-|gocspx-|sntrys_|atatt3|age-secret-key-1)[0-9a-z_-]{16,}"
        ),
        STARS,
    ),
    (concat!(begin!(), r"(?:hv[sbr]\.|ya29\.|(?-i:SG\.)|dp\.[a-z]{2,5}\.)[0-9a-z_.-]{16,}"), STARS),
    (concat!(begin!(), r"(?-i:AIza[0-9A-Za-z_-]{30,})"), STARS),
    // JSON web tokens.
    (concat!(begin!(), r"(?-i:eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}(?:\.[0-9A-Za-z_-]*)?)"), STARS),
    // HTTP headers.
    (r"\b(bearer|basic)((?:\s|%20)+)[0-9a-z._~+/=-]{6,}", "$1$2***"),
    (r"\b((?:proxy-)?authorization|cookie|set-cookie|x-api-key|x-auth-token)(\W{0,3}:\s*)[^\r\n]+", "$1$2***"),
    // In URLs, where a password may have an `@` of its own.
    (r"\b([a-z][a-z0-9+.-]{1,20}:(?:\\?/){2})[^\s/]+@", "$1***@"),
    (r"(%3a%2f%2f)[^\s/&]+?%40", "$1***%40"),
    (
        r"\b(hooks\.slack\.com/[a-z]+/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/webhookb2/)[^\s\x22']+",
        "$1***",
    ),
    (
        r"([?&](?:x-amz-\w+|x-goog-\w+|sig|signature|token|access_token|key|api_?key|code|password|secret)=)[^&\s\x22']+",
        "$1***",
    ),
    // Anything with a telling name: in escaped quotes, in quotes, without.
    (concat!("(", telling_name!(), r#"(?:\\+"|%22))(?:[^"%]|%[^2]|%2[^2])+"#), "$1***"),
    (concat!("(", telling_name!(), r#"")(?:[^"\\]|\\.)+"#), "$1***"),
    (concat!("(", telling_name!(), r#"\\*')[^']+"#), "$1***"),
    (concat!("(", telling_name!(), r#")[^\s"',;&]{3,}"#), "$1***"),
    // Arguments.
    (r#"(--?[\w-]*(?:password|passwd|secret|token|api-?key)[\w-]*\s+)(?:"[^"]+"|'[^']+'|[^\s"'-]\S{2,})"#, "$1***"),
    (r#"(\s(?:-u|--user|--proxy-user)[\s=]*["']?)[^\s:"']+:[^\s"']+"#, "$1***"),
    (r"\b((?:sshpass|login|mysql\w*|mariadb\w*)\b[^\n|;]*?\s(?-i:-p)\s*)[^\s-]\S*", "$1***"),
    (r"\b(redis-cli\b[^\n|;]*?\s(?-i:-a)\s+)\S+", "$1***"),
    (r"\b(login\s+\S+\s+password\s+)\S+", "$1***"),
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
            (r"said \nghp_0123456789abcdefghij", "ghp_0123"),
            ("redirected to /?next=%20ghp_0123456789abcdefghij", "ghp_0123"),
            ("CI_JOB_TOKEN glcbt-64_0123456789abcdefghij", "0123456789"),
            ("Bearer%20abc.def-ghi", "abc.def"),
            ("postgres://app:p@hunter22@db.example/app", "hunter22"),
            (r#"{"url":"https:\/\/bot:hunter22@git.example"}"#, "hunter22"),
            ("proxy=http%3A%2F%2Fbot%3Ahunter22%40proxy.example", "hunter22"),
            ("POST https://hooks.slack.com/services/T0001/B0001/hunter22", "hunter22"),
            (r#"msg="{\"user\":\"x\",\"password\":\"hunter22\"}""#, "hunter22"),
            (r#"body: %7B%22password%22%3A%22hunter22%22%7D"#, "hunter22"),
            (r#"PASSWORD="correct hunter22""#, "hunter22"),
            (r#""password": "cor\"rect,hunter22""#, "hunter22"),
            ("password: 'correct, hunter22'", "hunter22"),
            ("export DB_PASS=hunter22", "hunter22"),
            ("//npm.example/:_auth=hunter22==", "hunter22"),
            (r#"{"auths": {"r.example": {"auth": "hunter22=="}}}"#, "hunter22"),
            ("AccountName=x;AccountKey=hunter22==;", "hunter22"),
            ("deploy --token 'correct hunter22'", "hunter22"),
            ("curl -u admin:hunter22 https://x.example", "hunter22"),
            ("mysqldump -h db -P 3306 -phunter22 shop", "hunter22"),
            ("docker login -u ci -p hunter22 r.example", "hunter22"),
            ("machine git.example login ci password hunter22", "hunter22"),
        ] {
            assert!(!scrubbed(text).contains(secret), "{}", scrubbed(text));
        }
    }

    #[test]
    fn other_text_is_unchanged() {
        for text in [
            "error: token expired",
            "no password given",
            "https://git.example/x.git: not found",
            "naïve: ✗ 12:30",
            "tests_passed: 120, PASS: 7 of 9",
            "https://npm.example/@scope/pkg: not found",
            "see https://a.example/x, mail ops@a.example",
            "mkdir -p build/out",
            "task-runner-for-all-projects exited",
            r"C:\new\table not found",
        ] {
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
