//! Names in arguments: an environment as `review-1`, or with its pipeline as `web/review-1`.

use std::str::FromStr;

/// As long as the server allows.
const IDENTIFIER_MAX: usize = 63;

/// An environment, as somebody typed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentName {
    /// It wins over `--pipeline`.
    pub pipeline: Option<String>,
    pub name: String,
}

impl FromStr for EnvironmentName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (pipeline, name) = match text.split_once('/') {
            Some((pipeline, name)) => (Some(identifier(pipeline)?), name),
            None => (None, text),
        };
        Ok(Self { pipeline, name: identifier(name)? })
    }
}

/// A name or an id that can be part of a path, as the server defines it.
pub fn identifier(text: &str) -> Result<String, String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    if begins && text.len() <= IDENTIFIER_MAX && text.bytes().all(good) {
        return Ok(text.to_owned());
    }
    Err("must be 1 to 63 letters, digits, `.`, `_` or `-`, and begin with a letter or a digit".to_owned())
}

/// A label in an argument: `size=large`.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE, like size=large")?;
    Ok((identifier(name)?, value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_may_name_its_pipeline() {
        let name = |text: &str| text.parse::<EnvironmentName>();
        assert_eq!(name("review-1"), Ok(EnvironmentName { pipeline: None, name: "review-1".to_owned() }));
        let with_pipeline = EnvironmentName { pipeline: Some("web".to_owned()), name: "review-1".to_owned() };
        assert_eq!(name("web/review-1"), Ok(with_pipeline));
        for wrong in ["", "/", "web/", "/review-1", "a/b/c", "..", "a b", "-a", "a?b", &"a".repeat(64)] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
