//! Why the store of logs could not do something.

use std::io;

/// Without addresses of objects and without secrets: it is logged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct StoreFailure {
    why: String,
    /// Whether the same may work a moment later.
    pub is_passing: bool,
}

impl StoreFailure {
    pub fn passing(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_passing: true }
    }

    pub fn lasting(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_passing: false }
    }
}

impl From<io::Error> for StoreFailure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Of one object, and answered at once.
            io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory => Self::lasting(error.to_string()),
            _ => Self::passing(error.to_string()),
        }
    }
}
