//! What a category means in general, for a failure that no signature describes.

use crate::analysis::Category;

/// What went wrong, and what to look at.
pub(super) fn advice(category: Category) -> (&'static str, &'static str) {
    match category {
        Category::MissingCommand => (
            "a program seems not to be installed where the step runs",
            "install what the last lines name, or correct its name",
        ),
        Category::MissingFile => (
            "a file or something else that is needed seems not to exist",
            "check that it is created before the step, or is part of the commit",
        ),
        Category::MissingVariable => (
            "a setting seems not to be given",
            "set it as a variable of the environment or the pipeline, or as a secret; a step sees nothing else",
        ),
        Category::PermissionDenied => (
            "the step seems to lack a permission",
            "give the account or user of the step the permission that the lines name",
        ),
        Category::Authentication => {
            ("credentials seem to be missing or not accepted", "check the secret that they come from")
        }
        Category::PortInUse => {
            ("a port seems to be taken", "stop what holds it (a process of an earlier run perhaps), or use another")
        }
        Category::OutOfMemory => {
            ("memory seems to have run out", "give the step more memory, or make it use less (fewer jobs at once)")
        }
        Category::Killed => ("a program seems to have been ended from outside", "find out what ended it"),
        Category::Crashed => ("a program seems to have crashed", "follow its last lines to the code that did it"),
        Category::Timeout => (
            "something seems not to have happened in time",
            "check what it waited for; raise the limit only if it really needs longer",
        ),
        Category::DiskFull => ("the disk seems to be full", "free space where it writes: old images and caches first"),
        Category::NameResolution => {
            ("a host name seems not to be resolved", "check its spelling and the DNS of the machine")
        }
        Category::ConnectionFailed => (
            "a connection seems to have failed",
            "check that the other side runs and is reachable from the step; retry if it was a moment",
        ),
        Category::Tls => ("a secure connection seems to have failed", "check the certificate and who has issued it"),
        Category::HttpStatus => {
            ("a server seems to have refused a request", "check what it answered, and its own log at that time")
        }
        Category::RateLimited => (
            "a server seems to have had too many requests",
            "log in (anonymous callers get the lowest limits), use a cache, or run it again later",
        ),
        Category::ImagePull => (
            "an image seems not to be available",
            "check its name and tag, that it was pushed, and that the step has read access",
        ),
        Category::DependencyResolution => {
            ("a package seems to be missing, or not to fit", "check its name, its version and where it comes from")
        }
        Category::Syntax => {
            ("something seems not to parse", "fix it at the location that the lines name, in the commit")
        }
        Category::Compile => ("code seems not to compile", "fix the first error among the last lines"),
        Category::Lint => ("a code check seems to have found problems", "fix what the lines list"),
        Category::TestFailure => {
            ("tests seem to fail", "run the listed tests alone, and fix them or the code they test")
        }
        Category::MigrationFailed => (
            "a database statement or a migration seems to have failed",
            "fix it according to the database's message, and check what was already applied",
        ),
        Category::MergeConflict => {
            ("histories or files seem to conflict", "merge or rebase on your machine, and deploy the result")
        }
        Category::Locked => (
            "something else seems to hold a required lock",
            "wait for the other one to end; if none is left, release its lock",
        ),
        Category::Unhealthy => ("the deployed software seems not to come up", "check the log of the started service"),
        Category::AlreadyExists => (
            "what is to be created seems to exist already",
            "use another name or version, or remove the leftover of an earlier run",
        ),
        Category::ResourceLimit => {
            ("a limit seems to be reached", "free what counts against it, use less at once, or have the limit raised")
        }
        Category::Vulnerability => (
            "a scan seems to have found vulnerabilities",
            "update the listed packages, or add exceptions to the scanner's configuration",
        ),
        Category::Rejected => ("somebody seems to have refused it", "agree with them on the necessary changes"),
        Category::Cancelled => ("it seems to have been cancelled", "run it again if it is still wanted"),
        Category::Interrupted => ("it seems to have been interrupted", "run it again"),
        Category::Unknown => ("the log matches no known failure", "read its last lines"),
    }
}
