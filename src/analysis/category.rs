//! The kinds of root causes. Their names are part of the API.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use domain::named::named_enum;

named_enum! {
    pub enum Category {
        /// A program is not installed where the step runs.
        MissingCommand = "missing_command",
        /// A file or directory does not exist.
        MissingFile = "missing_file",
        /// An environment variable, a secret or a parameter is not set.
        MissingVariable = "missing_variable",
        /// The user is known but lacks the permission: for a file, in a cluster, in a cloud.
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
        /// A response with an unexpected status, without a more specific reason.
        HttpStatus = "http_status",
        RateLimited = "rate_limited",
        /// A container image cannot be pulled.
        ImagePull = "image_pull",
        /// Packages or modules that do not exist, are incompatible, or do not match their lock file.
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
        /// A required lock is held elsewhere: a state, a package database, a release in progress.
        Locked = "locked",
        /// Something to be created already exists: a version, a tag, a resource, a file.
        AlreadyExists = "already_exists",
        /// A limit other than memory, disk or a rate is reached: files, processes, connections, sizes, quotas,
        /// capacity.
        ResourceLimit = "resource_limit",
        /// A scan found known vulnerabilities, or secrets in the code.
        Vulnerability = "vulnerability",
        /// The deployed software does not become or stay healthy.
        Unhealthy = "unhealthy",
        /// A person did not approve a stage.
        Rejected = "rejected",
        Cancelled = "cancelled",
        /// The server ended while the deployment was running.
        Interrupted = "interrupted",
        Unknown = "unknown",
    }
}

impl<'de> Deserialize<'de> for Category {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        Self::parse(&name).map_err(|_| D::Error::custom(format!("there is no category `{name}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_is_parsed_back_and_no_other_text_is() {
        for category in Category::ALL {
            assert_eq!(Category::parse(category.as_str()), Ok(category));
        }
        for other in ["", "Timeout", "time_out", "unknown "] {
            assert!(Category::parse(other).is_err(), "{other:?}");
        }
    }
}
