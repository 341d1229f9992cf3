//! The `Authorization` header: the token in it, and what is wrong with one that is sent differently. What was sent is never
//! repeated, since it may be a token.

const BEARER: &[u8] = b"Bearer";
/// Schemes that other APIs use.
const OTHER_SCHEMES: [&str; 8] = ["Basic", "Token", "Digest", "ApiKey", "Key", "OAuth", "Bot", "JWT"];
/// Examples have these where a token belongs.
const PLACEHOLDERS: [&str; 9] =
    ["token", "api_token", "api-token", "your_token", "your-token", "your_api_token", "mytoken", "xxx", "changeme"];

/// The token after `Bearer`; it may still be malformed.
pub fn bearer(header: &[u8]) -> Option<&str> {
    let (scheme, token) = header.split_at_checked(BEARER.len())?;
    let token = token.strip_prefix(b" ").filter(|_| scheme.eq_ignore_ascii_case(BEARER))?;
    str::from_utf8(token.trim_ascii()).ok()
}

/// The mistake in a header without a usable token, as a sentence. `None` if it is none of the usual ones.
pub fn mistake(header: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(header);
    let text = text.trim();
    let (scheme, token) =
        text.split_once(char::is_whitespace).map_or((text, ""), |(scheme, rest)| (scheme, rest.trim()));
    if scheme.eq_ignore_ascii_case("bearer") {
        return mistake_in_token(token).map(str::to_owned);
    }
    let other = OTHER_SCHEMES.iter().find(|other| other.eq_ignore_ascii_case(scheme)).filter(|_| !token.is_empty());
    if let Some(other) = other {
        return Some(format!("tokens are sent with the scheme `Bearer`, not with `{other}`"));
    }
    let is_bearer_and_more = scheme.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("bearer"));
    let mistake = match scheme {
        "" => "the header `Authorization` is empty, perhaps like the variable that should hold the token",
        _ if scheme.eq_ignore_ascii_case("authorization:") => "the name of the header is a part of its value",
        _ if is_bearer_and_more => "after `Bearer` comes a space, and nothing else before the token",
        // A scheme that we do not know, and something after it.
        _ if !token.is_empty() && !text.starts_with("lk_") => return None,
        _ => match mistake_in_token(text) {
            Some(mistake) => mistake,
            None if text.starts_with("lk_") => "the word `Bearer` is missing before the token",
            None => return None,
        },
    };
    Some(mistake.to_owned())
}

fn mistake_in_token(token: &str) -> Option<&'static str> {
    let lower = token.to_ascii_lowercase();
    let is_placeholder = token.contains(['<', '>', '{', '}', '[', '…'])
        || token.contains("...")
        || PLACEHOLDERS.contains(&lower.as_str());
    if token.is_empty() {
        Some("there is no token after `Bearer`: perhaps the variable that should hold it is empty")
    } else if token.starts_with('$') || (token.starts_with('%') && token.ends_with('%')) {
        Some("the name of a variable was sent instead of its value; a shell needs double quotes to replace it")
    } else if is_placeholder {
        Some("the token is a placeholder, as in an example; put your own in its place")
    } else if token.contains(['"', '\'', '`', '\u{201c}', '\u{201d}']) {
        Some("the token has quotes in it; leave them out")
    } else if lower.starts_with("bearer") {
        Some("the word `Bearer` is there twice")
    } else if token.contains(char::is_whitespace) || token.contains("\\n") || lower.contains("%0a") {
        Some("the token has a space or a line break in it; it must be in one piece")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TOKEN: &str = "lk_0000000000000000000000000000002C8GjS";

    #[test]
    fn a_token_after_bearer_is_taken_whatever_the_case_and_the_spaces() {
        for sent in [format!("Bearer {TOKEN}"), format!("bearer  {TOKEN} ")] {
            assert_eq!(bearer(sent.as_bytes()), Some(TOKEN));
            assert_eq!(mistake(sent.as_bytes()), None);
        }
        for sent in [TOKEN, "Bearer", "", "Basic x"] {
            assert_eq!(bearer(sent.as_bytes()), None, "{sent}");
        }
    }

    #[test]
    fn each_mistake_is_said_as_it_is_and_nothing_of_what_was_sent() {
        let sent_and_said = [
            (TOKEN.to_owned(), "the word `Bearer` is missing"),
            (format!("Basic {TOKEN}"), "with the scheme `Bearer`, not with `Basic`"),
            (format!("token {TOKEN}"), "not with `Token`"),
            (format!("Bearer: {TOKEN}"), "after `Bearer` comes a space"),
            (format!("Bearer={TOKEN}"), "after `Bearer` comes a space"),
            (format!("Bearer{TOKEN}"), "after `Bearer` comes a space"),
            (format!("Authorization: Bearer {TOKEN}"), "the name of the header is a part of its value"),
            (format!("Bearer Bearer {TOKEN}"), "`Bearer` is there twice"),
            (format!("Bearer \"{TOKEN}\""), "has quotes in it"),
            (format!("'{TOKEN}'"), "has quotes in it"),
            (format!("Bearer {} {}", &TOKEN[..20], &TOKEN[20..]), "in one piece"),
            (format!("Bearer {TOKEN}\\n"), "in one piece"),
            ("Bearer".to_owned(), "there is no token after `Bearer`"),
            ("bearer ".to_owned(), "there is no token after `Bearer`"),
            (String::new(), "is empty"),
            ("Bearer lk_…".to_owned(), "a placeholder"),
            ("Bearer lk_...".to_owned(), "a placeholder"),
            ("Bearer <token>".to_owned(), "a placeholder"),
            ("Bearer <API_TOKEN>".to_owned(), "a placeholder"),
            ("Bearer YOUR_TOKEN".to_owned(), "a placeholder"),
            ("Bearer {{ secrets.LOCKKEEPER }}".to_owned(), "a placeholder"),
            ("Bearer $TOKEN".to_owned(), "the name of a variable"),
            ("Bearer ${TOKEN}".to_owned(), "the name of a variable"),
            ("$TOKEN".to_owned(), "the name of a variable"),
            ("Bearer %TOKEN%".to_owned(), "the name of a variable"),
        ];
        for (sent, said) in sent_and_said {
            let mistake = mistake(sent.as_bytes()).unwrap_or_else(|| panic!("{sent}"));
            assert!(mistake.contains(said), "{sent}: {mistake}");
            assert!(!mistake.contains("lk_") && !mistake.contains("0000"), "{mistake}");
        }
        for other in [&b"Bearer ghp_abcdefghij"[..], b"Bearer lk_short", b"Negotiate abc", b"Basic", b"\xff\xfe"] {
            assert_eq!(mistake(other), None, "{}", String::from_utf8_lossy(other));
        }
    }
}
