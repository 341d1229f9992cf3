//! The result of one examination: the state of a thing, and what to do about it.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    /// It works, but maybe not for long, or not as well as it could.
    Warning,
    /// The server does not start, or does not keep its promises.
    Fault,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub level: Level,
    /// The examined thing, in a word or two.
    pub subject: &'static str,
    /// Its state.
    pub words: String,
    /// Advice, unless the level is `Ok`.
    pub advice: Option<String>,
}

impl Finding {
    pub fn ok(subject: &'static str, words: impl Into<String>) -> Self {
        Self { level: Level::Ok, subject, words: words.into(), advice: None }
    }

    pub fn warning(subject: &'static str, words: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Warning, subject, words: words.into(), advice: Some(advice.into()) }
    }

    pub fn fault(subject: &'static str, words: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { level: Level::Fault, subject, words: words.into(), advice: Some(advice.into()) }
    }
}

impl fmt::Display for Finding {
    /// Formats a finding as one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Fault => "fault",
        };
        write!(f, "{level:<8} {}: {}", self.subject, self.words)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}
