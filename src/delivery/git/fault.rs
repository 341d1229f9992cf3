//! Errors of git, recognised by its messages: git reports the reason only there.

use std::io;

use shares::ShareError;

/// The maximum length of a quoted line of git or the remote.
const SHOWN_CHARS_MAX: usize = 300;

/// Each text is the end of a sentence, in git's own words where possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitError {
    #[error("git is not installed: {program} was not found; install git, or set git.program")]
    NoGit { program: String },
    /// The repository, or the requested part of it.
    #[error("not found: {0}")]
    NotFound(String),
    /// One text for all causes: a caller chooses the address, and must not learn from refusals, timeouts and names what
    /// else is in the server's network. The reason is only in the operator's log.
    #[error(
        "the remote cannot be reached, or does not answer as a git server in time; check its URL; private addresses need \
         an operator's outbound.allow; the server's log has the reason"
    )]
    Unreachable(String),
    #[error("the remote denied access: {0}; check the credential")]
    Authentication(String),
    /// A push that the remote did not accept.
    #[error("the remote refused it: {0}")]
    Rejected(String),
    /// Never pushed to, even if the remote would allow it.
    #[error("{0} is the default branch, which is never pushed to")]
    DefaultBranch(String),
    #[error("the patch cannot be applied: {0}")]
    Patch(String),
    #[error("there is nothing to commit")]
    NothingChanged,
    /// A directory where a file should be, or vice versa.
    #[error("{0} cannot be added: the repository has something else at that path")]
    PathTaken(String),
    #[error("git took longer than {seconds} seconds (git.timeout_seconds)")]
    TimedOut { seconds: u64 },
    /// All slots for git are taken.
    #[error("git was busy with other repositories for {seconds} seconds; try again")]
    Busy { seconds: u64 },
    #[error("too many repositories wait for git: {0}; try again later")]
    Crowded(ShareError),
    #[error("{0}")]
    TooLarge(String),
    #[error("git failed: {0}")]
    Failed(String),
    /// An error of this machine: no space, no permission.
    #[error("git cannot be run here: {0}")]
    Io(String),
}

impl From<io::Error> for GitError {
    fn from(error: io::Error) -> Self {
        GitError::Io(error.to_string())
    }
}

/// The error of a failed process. `said` is its standard error, without credentials. Words in the URL do not count: the
/// caller chooses it, and could turn an error that reveals nothing into one that does.
pub(super) fn from_stderr(said: &str, url: &str) -> GitError {
    let reason = reason_line(said);
    let counted = if url.is_empty() { said.to_owned() } else { said.replace(url, "…") };
    let says = |signs: &[&str]| signs.iter().any(|sign| counted.contains(sign));
    // The order matters: a denied login is also reported as a failed access.
    if says(&["[rejected]", "[remote rejected]", "protected branch"]) {
        GitError::Rejected(reason)
    } else if lacks_space(&counted) {
        GitError::Io("the server's disk is full".to_owned())
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
        GitError::Authentication(reason)
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
        GitError::Unreachable(reason)
    } else if says(&[
        "couldn't find remote ref",
        "ot found",
        "does not appear to be a git repository",
        "does not exist",
        "not a git repository",
        "is this a git repository",
        "No such file or directory",
        "returned error: 404",
    ]) {
        GitError::NotFound(reason)
    } else if says(&["Could not read from remote repository", "unable to access", "hung up unexpectedly"]) {
        GitError::Unreachable(reason)
    } else {
        GitError::Failed(reason)
    }
}

/// Only this machine's disk: the remote's may be full too.
fn lacks_space(said: &str) -> bool {
    said.lines().any(|line| !line.starts_with("remote: ") && line.contains("No space left on device"))
}

/// Lines that git prints after the reason, or as advice.
const NOT_A_REASON: [&str; 4] = [
    "Could not read from remote repository.",
    "Please make sure you have the correct access rights",
    "and the repository exists.",
    "the remote end hung up unexpectedly",
];

/// The line with the reason: hints come after it, progress before it.
fn reason_line(said: &str) -> String {
    let may_be_reason = |line: &&str| !line.is_empty() && !NOT_A_REASON.iter().any(|other| line.ends_with(other));
    let lines = || said.lines().rev().map(str::trim).filter(may_be_reason);
    let by_sign = |sign: &str| lines().find(|line| line.contains(sign));
    let marked = by_sign("! [").or_else(|| by_sign("fatal: ")).or_else(|| by_sign("error: "));
    let line = marked.or_else(|| lines().next()).or_else(|| said.lines().map(str::trim).find(|line| !line.is_empty()));
    let line = line.unwrap_or("it gave no reason");
    let line = line.strip_prefix("fatal: ").or_else(|| line.strip_prefix("error: ")).unwrap_or(line);
    printable(line)
}

pub(super) fn printable(line: &str) -> String {
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
    fn errors_are_recognised_by_gits_messages() {
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
            (
                "fatal: write error: No space left on device\nfatal: fetch-pack: invalid index-pack output",
                GitError::Io("the server's disk is full".into()),
            ),
            (
                "remote: fatal: write error: No space left on device\nfatal: protocol error",
                GitError::Failed("protocol error".into()),
            ),
            ("fatal: something else", GitError::Failed("something else".into())),
            ("", GitError::Failed("it gave no reason".into())),
        ];
        for (said, meant) in cases {
            assert_eq!(from_stderr(said, ""), meant, "{said}");
        }
    }

    #[test]
    fn nobody_learns_why_a_remote_cannot_be_reached() {
        let told = |said: &str| from_stderr(said, "").to_string();
        let refused = told(
            "fatal: unable to access 'http://10.0.0.5/': Failed to connect to 10.0.0.5 port 80: Connection refused",
        );
        for said in [
            "fatal: unable to access 'http://10.0.0.5/': Failed to connect to 10.0.0.5 port 80: No route to host",
            "fatal: unable to access 'http://10.0.0.5/': Received HTTP/0.9 when not allowed",
            "fatal: unable to access 'http://db.internal/': Could not resolve host: db.internal",
            "fatal: unable to access 'https://10.0.0.5/': SSL certificate problem: self-signed certificate",
            "ssh: connect to host 10.0.0.5 port 22: Connection timed out\nfatal: Could not read from remote repository.",
            "kex_exchange_identification: Connection closed by remote host\nfatal: Could not read from remote repository.",
        ] {
            assert_eq!(told(said), refused, "{said}");
        }
        assert!(!refused.contains("10.0.0.5"), "{refused}");
    }

    #[test]
    fn no_url_chooses_how_an_error_is_understood() {
        let url = "https://10.0.0.5/[rejected]";
        let said = "fatal: unable to access 'https://10.0.0.5/[rejected]/': Failed to connect to 10.0.0.5 port 443";
        assert!(matches!(from_stderr(said, url), GitError::Unreachable(_)));
        assert!(matches!(from_stderr(&format!("{said}\n ! [rejected] a -> b"), url), GitError::Rejected(_)));
    }

    #[test]
    fn a_shown_line_is_short_and_has_no_control_characters() {
        let shown = printable(&format!("a\u{1b}[31m\tb{}", "x".repeat(1000)));
        assert!(shown.starts_with("a [31m b") && shown.chars().count() == SHOWN_CHARS_MAX + 1, "{shown}");
    }
}
