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
    /// A file or directory is not there.
    MissingFile = "missing_file",
    /// An environment variable, a secret or a parameter is not set.
    MissingVariable = "missing_variable",
    /// Who wants it is known and may not do it: with a file, in a cluster, in a cloud.
    PermissionDenied = "permission_denied",
    /// Credentials are missing, wrong or expired.
    Authentication = "authentication",
    PortInUse = "port_in_use",
    OutOfMemory = "out_of_memory",
    /// Ended by a signal, and nothing says that memory was the reason.
    Killed = "killed",
    /// A program died of a fault of its own: a segmentation fault, a panic, an unhandled exception.
    Crashed = "crashed",
    /// Something took longer than it may.
    Timeout = "timeout",
    /// The disk, a quota of it, or its inodes are used up.
    DiskFull = "disk_full",
    NameResolution = "name_resolution",
    /// Refused, reset or without a route.
    ConnectionFailed = "connection_failed",
    Tls = "tls",
    /// An answer with a status that is not the expected one, and nothing more specific.
    HttpStatus = "http_status",
    RateLimited = "rate_limited",
    /// An image of a container cannot be had.
    ImagePull = "image_pull",
    /// Packages or modules that do not exist, do not fit together, or do not match their lock file.
    DependencyResolution = "dependency_resolution",
    /// A script, a template or a configuration file cannot be understood.
    Syntax = "syntax",
    Compile = "compile",
    /// A linter, a formatter or a static check.
    Lint = "lint",
    TestFailure = "test_failure",
    /// A change of a database's schema, or a statement of it, failed.
    MigrationFailed = "migration_failed",
    /// Histories or files that contradict each other: conflicts, rejected pushes, patches that do not apply.
    MergeConflict = "merge_conflict",
    /// Something else holds a lock that is needed: a state, a package database, a release in progress.
    Locked = "locked",
    /// What was deployed does not become or stay healthy.
    Unhealthy = "unhealthy",
    /// Somebody did not approve a stage.
    Rejected = "rejected",
    Cancelled = "cancelled",
    /// The server ended while it ran.
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
