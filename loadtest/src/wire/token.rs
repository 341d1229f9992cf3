//! Owns the API token: reads it, and ensures that it is never shown.

use std::fmt;
use std::path::Path;

use rand::RngExt;

pub const TOKEN_VARIABLE: &str = "LOCKKEEPER_TOKEN";
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

#[derive(Clone)]
pub struct Token(String);

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("no token: set {TOKEN_VARIABLE} or give --token-file")]
    Missing,
    #[error("cannot read the token file: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error("the token is empty or contains characters that a header must not contain")]
    Unusable,
}

impl Token {
    /// Reads the token. There is no option for the token itself, since arguments are visible to every user of the
    /// machine.
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

    /// A token for a server that we start: `lk_`, 30 random characters, and 6 for their CRC-32.
    pub fn random() -> Self {
        let mut random = rand::rng();
        let characters: String = (0..30).map(|_| char::from(BASE62[random.random_range(0..BASE62.len())])).collect();
        Self(with_checksum(&characters))
    }

    /// The text of the token, only for building requests.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

fn with_checksum(characters: &str) -> String {
    let mut checksum = crc32fast::hash(characters.as_bytes());
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(checksum % 62) as usize];
        checksum /= 62;
    }
    format!("lk_{characters}{}", String::from_utf8_lossy(&digits))
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
    fn a_random_token_has_the_form_that_a_server_takes_and_is_new_each_time() {
        assert_eq!(with_checksum("000000000000000000000000000000"), "lk_0000000000000000000000000000002C8GjS");
        let (one, other) = (Token::random(), Token::random());
        assert_eq!((one.reveal().len(), &one.reveal()[..3]), (39, "lk_"));
        assert_ne!(one.reveal(), other.reveal());
    }

    #[test]
    fn a_token_that_would_break_the_header_is_refused() {
        for text in ["", " \n", "lk_a\r\nX-Evil: 1", "lk ä"] {
            assert!(matches!(Token::parse(text), Err(TokenError::Unusable)), "{text:?}");
        }
    }
}
