//! Owns the API token: where it is read from, and that it is never shown.

use std::fmt;
use std::path::Path;

pub const TOKEN_VARIABLE: &str = "LOCKKEEPER_TOKEN";

#[derive(Clone)]
pub struct Token(String);

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("no token: set {TOKEN_VARIABLE} or give --token-file")]
    Missing,
    #[error("cannot read the token file: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error("the token is empty or has characters that cannot stand in a header")]
    Unusable,
}

impl Token {
    /// There is no flag for the token itself, because arguments are visible to every user of the machine.
    pub fn read(file: Option<&Path>) -> Result<Self, TokenError> {
        let text = match file {
            Some(file) => std::fs::read_to_string(file)?,
            None => std::env::var(TOKEN_VARIABLE).map_err(|_| TokenError::Missing)?,
        };
        Self::parse(&text)
    }

    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Unusable);
        }
        Ok(Self(text.to_owned()))
    }

    /// Only for the bytes of a request.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_loses_the_newline_of_its_file_and_is_hidden_from_debug_output() {
        let token = Token::parse("lk_secret\n").expect("usable");
        assert_eq!(token.reveal(), "lk_secret");
        assert!(!format!("{token:?}").contains("secret"));
    }

    #[test]
    fn a_token_that_would_break_the_header_is_refused() {
        for text in ["", " \n", "lk_a\r\nX-Evil: 1", "lk ä"] {
            assert!(matches!(Token::parse(text), Err(TokenError::Unusable)), "{text:?}");
        }
    }
}
