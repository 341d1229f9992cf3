//! Runs the installed `git`: looks up and reads remotes, and pushes a branch of changes. Knows nothing of registries or
//! pipelines.
//!
//! A user who may name a remote is not trusted with the machine: only a few forms of URL are allowed; no option,
//! helper, hook, filter or submodule of a repository runs; neither the server's environment nor the user's git
//! configuration is visible; and every process ends within its time limit, together with everything it started. A
//! credential appears in no argument and in no error. A repository is never checked out, since few bytes can unpack to
//! any number of files; the sum of file sizes is limited too. Git connects only through our proxy, under the policy of
//! [`outbound`](outbound).
//!
//! From top to bottom: `work_tree` → `remote` → `process` → `scratch`, `names`, `fault`.

mod fault;
mod names;
mod process;
mod remote;
mod scratch;
mod work_tree;

#[cfg(test)]
mod tests;

pub use fault::GitError;
pub use names::{Author, Commit, Credential, RefName, Remote, RemoteUrl, TreePath};
pub use process::{Git, GitSettings, OrganizationGit};
pub use remote::{File, Snapshot};
pub use work_tree::WorkTree;
