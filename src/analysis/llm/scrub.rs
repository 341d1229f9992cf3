//! Masks everything that looks like a credential (`catalogue/credentials.toml`), even if nobody declared it a secret.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::catalogue::{CREDENTIALS, Pattern, PatternText};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    begin: PatternText,
    name: PatternText,
    rule: Vec<Rule>,
}

/// What looks like a credential, and what is left of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    pattern: PatternText,
    replacement: String,
}

static RULES: LazyLock<Vec<(Pattern, String)>> = LazyLock::new(|| {
    let Table { begin, name, rule: rules } = CREDENTIALS.read();
    let whole = |pattern: &str| Pattern::new(pattern.replace("<begin>", &begin.0).replace("<name>", &name.0));
    rules.into_iter().map(|rule| (whole(&rule.pattern.0), rule.replacement)).collect()
});

pub(super) fn scrubbed(text: &str) -> String {
    let mut bytes = Cow::Borrowed(text.as_bytes());
    for (pattern, replacement) in RULES.iter() {
        if let Cow::Owned(replaced) = pattern.regex().replace_all(&bytes, replacement.as_bytes()) {
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
    fn every_rule_keeps_only_groups_that_it_has() {
        for (pattern, replacement) in RULES.iter() {
            let pattern = pattern.regex();
            let kept = replacement.split('$').skip(1).filter_map(|rest| rest.chars().next()?.to_digit(10));
            kept.for_each(|group| assert!((group as usize) < pattern.captures_len(), "credentials.toml: {pattern}"));
            assert!(!pattern.as_str().contains('<'), "credentials.toml: a part is not known: {pattern}");
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
