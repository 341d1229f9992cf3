//! Why git did not do it: by what it says, which is the only place where it says so.

use std::io;

/// What is shown of a line that git or the other side wrote.
const SHOWN_CHARS_MAX: usize = 300;

/// Each says what happened as the end of a sentence, in git's own words where there are some.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitError {
    #[error("git is not installed: {program} was not found; install git, or set git.program")]
    NoGit { program: String },
    /// The repository, or what was asked for in it.
    #[error("not found: {0}")]
    NotFound(String),
    #[error("the remote cannot be reached: {0}")]
    Unreachable(String),
    #[error("the remote does not let us in: {0}; check the credential")]
    Authentication(String),
    /// A push that the remote did not take.
    #[error("the remote refused it: {0}")]
    Rejected(String),
    /// It is not pushed to, whatever the remote would say.
    #[error("{0} is the default branch, which is never pushed to")]
    DefaultBranch(String),
    #[error("the patch cannot be applied: {0}")]
    Patch(String),
    #[error("there is nothing to commit")]
    NothingChanged,
    /// A directory where a file should be, or the other way round.
    #[error("{0} cannot be added, since the repository has something else in its way")]
    InTheWay(String),
    #[error("git took longer than {seconds} seconds (git.timeout_seconds)")]
    TimedOut { seconds: u64 },
    /// Too many others use git now.
    #[error("git was busy with other repositories for {seconds} seconds; try again")]
    Busy { seconds: u64 },
    #[error("{0}")]
    TooLarge(String),
    #[error("git failed: {0}")]
    Failed(String),
    /// Of this machine: no space, no permission.
    #[error("git cannot be run here: {0}")]
    Io(String),
}

impl From<io::Error> for GitError {
    fn from(error: io::Error) -> Self {
        GitError::Io(error.to_string())
    }
}

/// What a failed process means. `said` has no credential in it.
pub(super) fn of(said: &str) -> GitError {
    let told = telling_line(said);
    let says = |signs: &[&str]| signs.iter().any(|sign| said.contains(sign));
    // In this order: a refused login is also an access that failed.
    if says(&["[rejected]", "[remote rejected]", "protected branch"]) {
        GitError::Rejected(told)
    } else if says(&[
        "Authentication failed",
        "could not read Username",
        "could not read Password",
        "Permission denied (",
        "Host key verification failed",
        "No ED25519 host key is known",
        "terminal prompts disabled",
        "returned error: 401",
        "returned error: 403",
    ]) {
        GitError::Authentication(told)
    } else if says(&[
        "Could not resolve host",
        "Failed to connect",
        "Couldn't connect",
        "Connection refused",
        "Connection timed out",
        "Connection reset",
        "Operation too slow",
        "Network is unreachable",
        "No route to host",
        "SSL certificate",
        "returned error: 5",
    ]) {
        GitError::Unreachable(told)
    } else if says(&[
        "couldn't find remote ref",
        "ot found",
        "does not appear to be a git repository",
        "does not exist",
        "not a git repository",
        "No such file or directory",
        "returned error: 404",
    ]) {
        GitError::NotFound(told)
    } else if says(&["Could not read from remote repository", "unable to access", "hung up unexpectedly"]) {
        GitError::Unreachable(told)
    } else {
        GitError::Failed(told)
    }
}

/// What git says after whoever knew why, or as advice.
const SAYS_NOTHING: [&str; 4] = [
    "Could not read from remote repository.",
    "Please make sure you have the correct access rights",
    "and the repository exists.",
    "the remote end hung up unexpectedly",
];

/// The line that says why: hints come after it, progress before.
fn telling_line(said: &str) -> String {
    let says_something = |line: &&str| !line.is_empty() && !SAYS_NOTHING.iter().any(|empty| line.ends_with(empty));
    let lines = || said.lines().rev().map(str::trim).filter(says_something);
    let by_sign = |sign: &str| lines().find(|line| line.contains(sign));
    let telling = by_sign("! [").or_else(|| by_sign("fatal: ")).or_else(|| by_sign("error: "));
    let line = telling.or_else(|| lines().next()).or_else(|| said.lines().map(str::trim).find(|line| !line.is_empty()));
    let line = line.unwrap_or("it did not say why");
    let line = line.strip_prefix("fatal: ").or_else(|| line.strip_prefix("error: ")).unwrap_or(line);
    cleaned(line)
}

pub(super) fn cleaned(line: &str) -> String {
    let plain = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut shown: String = plain.take(SHOWN_CHARS_MAX + 1).collect();
    if let Some((end, _)) = shown.char_indices().nth(SHOWN_CHARS_MAX) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_is_told_apart() {
        let hint = "\n\nPlease make sure you have the correct access rights\nand the repository exists.\n";
        let cases = [
            (
                "fatal: unable to access 'https://x/': Could not resolve host: x",
                GitError::Unreachable("unable to access 'https://x/': Could not resolve host: x".into()),
            ),
            (
                "remote: Repository not found.\nfatal: repository 'https://x/' not found",
                GitError::NotFound("repository 'https://x/' not found".into()),
            ),
            (
                "fatal: could not read Username for 'https://x': terminal prompts disabled",
                GitError::Authentication("could not read Username for 'https://x': terminal prompts disabled".into()),
            ),
            (
                &format!("git@x: Permission denied (publickey).\nfatal: Could not read from remote repository.{hint}"),
                GitError::Authentication("git@x: Permission denied (publickey).".into()),
            ),
            (
                &format!(
                    "fatal: '/x' does not appear to be a git repository\nfatal: Could not read from remote repository.{hint}"
                ),
                GitError::NotFound("'/x' does not appear to be a git repository".into()),
            ),
            (
                "To file:///x\n ! [remote rejected] a -> b (hook declined)\nerror: failed to push some refs to 'file:///x'",
                GitError::Rejected("! [remote rejected] a -> b (hook declined)".into()),
            ),
            (
                &format!("fatal: Could not read from remote repository.{hint}"),
                GitError::Unreachable("Could not read from remote repository.".into()),
            ),
            ("fatal: something else", GitError::Failed("something else".into())),
            ("", GitError::Failed("it did not say why".into())),
        ];
        for (said, meant) in cases {
            assert_eq!(of(said), meant, "{said}");
        }
    }

    #[test]
    fn what_is_shown_is_one_short_line_without_control_characters() {
        let shown = cleaned(&format!("a\u{1b}[31m\tb{}", "x".repeat(1000)));
        assert!(shown.starts_with("a [31m b") && shown.chars().count() == SHOWN_CHARS_MAX + 1, "{shown}");
    }
}
