//! The kinds of root causes. Their names are part of the API.

use std::fmt;

macro_rules! categories {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Category {
            $($(#[$doc])* $name,)*
        }

        impl Category {
            pub const ALL: &[Category] = &[$(Category::$name),*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Category::$name => $text,)*
                }
            }
        }
    };
}

categories! {
    /// A program is not installed where the step runs.
    MissingCommand = "missing_command",
    /// A file or directory does not exist.
    MissingFile = "missing_file",
    /// An environment variable, a secret or a parameter is not set.
    MissingVariable = "missing_variable",
    /// The user is known and lacks the permission: for a file, in a cluster, in a cloud.
    PermissionDenied = "permission_denied",
    /// Credentials are missing, wrong or expired.
    Authentication = "authentication",
    PortInUse = "port_in_use",
    OutOfMemory = "out_of_memory",
    /// Ended by a signal, without a sign that memory was the reason.
    Killed = "killed",
    /// A program crashed: a segmentation fault, a panic, an unhandled exception.
    Crashed = "crashed",
    /// Something exceeded its time limit.
    Timeout = "timeout",
    /// The disk, its quota or its inodes are used up.
    DiskFull = "disk_full",
    NameResolution = "name_resolution",
    /// Refused, reset or without a route.
    ConnectionFailed = "connection_failed",
    Tls = "tls",
    /// A response with an unexpected status, and nothing more specific.
    HttpStatus = "http_status",
    RateLimited = "rate_limited",
    /// A container image cannot be pulled.
    ImagePull = "image_pull",
    /// Packages or modules that do not exist, do not fit together, or do not match their lock file.
    DependencyResolution = "dependency_resolution",
    /// A script, a template or a configuration file cannot be parsed.
    Syntax = "syntax",
    Compile = "compile",
    /// A linter, a formatter or a static check.
    Lint = "lint",
    TestFailure = "test_failure",
    /// A database migration, or one of its statements, failed.
    MigrationFailed = "migration_failed",
    /// Conflicting histories or files: merge conflicts, rejected pushes, patches that do not apply.
    MergeConflict = "merge_conflict",
    /// A required lock is held by something else: a state, a package database, a release in progress.
    Locked = "locked",
    /// The deployed software does not become or stay healthy.
    Unhealthy = "unhealthy",
    /// Somebody did not approve a stage.
    Rejected = "rejected",
    Cancelled = "cancelled",
    /// The server ended while the deployment was running.
    Interrupted = "interrupted",
    Unknown = "unknown",
}

impl Category {
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|category| category.as_str() == text)
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_reads_back_from_its_name_and_no_other_text_does() {
        for category in Category::ALL {
            assert_eq!(Category::parse(category.as_str()), Some(*category));
        }
        for other in ["", "Timeout", "time_out", "unknown "] {
            assert_eq!(Category::parse(other), None, "{other:?}");
        }
    }
}
