//! Why the store of logs could not do something.

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

impl From<std::io::Error> for StoreFailure {
    fn from(error: std::io::Error) -> Self {
        Self::passing(error.to_string())
    }
}
