//! What the way a step ended says by itself: its exit code, the signal that killed it, the time it was given.

use std::sync::LazyLock;

use regex::Regex;

use super::scene::Scene;
use crate::analysis::Category;
use crate::domain::StageStatus;

/// How a step ended that did not simply fail: nothing in its log can say more about the category.
pub(super) enum Verdict {
    Interrupted,
    Rejected,
    Cancelled,
    TimedOut { seconds: Option<u32> },
}

pub(super) fn verdict(scene: &Scene<'_>) -> Option<Verdict> {
    let error = scene.error();
    if error.starts_with("interrupted: ") {
        return Some(Verdict::Interrupted);
    }
    let name = scene.stage.map(|stage| stage.name.as_str()).unwrap_or_default();
    if error.starts_with(&format!("stage `{name}` was rejected by ")) {
        return Some(Verdict::Rejected);
    }
    if error.starts_with(&format!("stage `{name}`: the stage took longer than its ")) {
        return Some(Verdict::TimedOut { seconds: scene.stage.and_then(|stage| stage.timeout_seconds) });
    }
    let cancelled = scene.stage.is_some_and(|stage| stage.status == StageStatus::Cancelled);
    cancelled.then_some(Verdict::Cancelled)
}

/// What an exit code means, where it means something.
pub(super) struct ExitWord {
    /// The first is what it means if no line says more.
    pub categories: &'static [Category],
    pub weight: u8,
    pub cause: &'static str,
    pub fix: &'static str,
}

use Category::{
    Authentication, ConnectionFailed, Crashed, HttpStatus, Killed, MissingCommand, MissingFile, NameResolution,
    OutOfMemory, PermissionDenied, RateLimited, Timeout, Tls,
};

const NOT_FOUND: ExitWord = ExitWord {
    categories: &[MissingCommand, MissingFile],
    weight: 62,
    cause: "exit code 127: a command was not found",
    fix: "see which command it is (the last line before the end, or run it with `set -x`) and install it where the step runs",
};
const NOT_EXECUTABLE: ExitWord = ExitWord {
    categories: &[PermissionDenied, Crashed],
    weight: 62,
    cause: "exit code 126: a command was found and may not be executed",
    fix: "make it executable (`git update-index --chmod=+x`), or call it through its interpreter",
};
const KILLED: ExitWord = ExitWord {
    categories: &[Killed, OutOfMemory],
    weight: 64,
    cause: "it was killed with signal 9, most often by the kernel since memory ran out",
    fix: "look at the kernel's log (`dmesg`) for the out-of-memory killer; give the step more memory, or let it use less",
};
const KILLED_AT_ITS_LIMIT: ExitWord = ExitWord {
    categories: &[OutOfMemory, Killed],
    weight: 66,
    cause: "it was killed with signal 9 under a limit of memory",
    fix: "raise the memory limit, or let it use less (fewer jobs at once, smaller batches)",
};
const TERMINATED: ExitWord = ExitWord {
    categories: &[Killed, Timeout],
    weight: 60,
    cause: "it was told to end from outside (signal 15)",
    fix: "find out who ended it: a time limit, a restart of the machine, or another step",
};
const CRASHED: ExitWord = ExitWord {
    categories: &[Crashed, OutOfMemory],
    weight: 66,
    cause: "a program crashed in its own code",
    fix: "run it with a debugger or a sanitizer on the same input",
};
const OUT_OF_TIME: ExitWord = ExitWord {
    categories: &[Timeout],
    weight: 72,
    cause: "exit code 124: `timeout` ended it",
    fix: "see what it was doing when the time was over; raise the limit only if it really needs longer",
};

/// Of curl, which is at the end of many a script.
const CURL: &[(i32, ExitWord)] = &[
    (6, curl(&[NameResolution], "curl could not resolve a host (exit code 6)", "check the host's name and its DNS")),
    (7, curl(&[ConnectionFailed], "curl could not connect (exit code 7)", "see that the other side runs and listens")),
    (
        22,
        curl(
            &[HttpStatus, Authentication, PermissionDenied, RateLimited],
            "curl got a status of 400 or more (exit code 22)",
            "look at the other side's log for why it answers so; without `-f` curl shows the answer",
        ),
    ),
    (
        28,
        curl(
            &[Timeout],
            "curl ran out of time (exit code 28)",
            "see that the other side can be reached and is not overloaded",
        ),
    ),
    (
        35,
        curl(
            &[Tls],
            "curl could not agree on TLS (exit code 35)",
            "check that the port speaks TLS, and which versions",
        ),
    ),
    (52, curl(&[ConnectionFailed], "curl got no answer (exit code 52)", "look at the other side's log at that time")),
    (
        56,
        curl(
            &[ConnectionFailed],
            "the connection of curl broke off (exit code 56)",
            "look at the other side's log at that time",
        ),
    ),
    (
        60,
        curl(
            &[Tls],
            "curl does not trust the server's certificate (exit code 60)",
            "renew the certificate, or add its authority to the trust store",
        ),
    ),
    (77, curl(&[Tls], "curl cannot read its certificates (exit code 77)", "install the package of CA certificates")),
];

const fn curl(categories: &'static [Category], cause: &'static str, fix: &'static str) -> ExitWord {
    ExitWord { categories, weight: 60, cause, fix }
}

pub(super) fn exit_word(scene: &Scene<'_>) -> Option<&'static ExitWord> {
    if let Some(signal) = signal(scene.error()) {
        return by_signal(signal, scene);
    }
    let code = scene.exit_code()?;
    match code {
        124 => Some(&OUT_OF_TIME),
        126 => Some(&NOT_EXECUTABLE),
        127 => Some(&NOT_FOUND),
        129..=159 => by_signal(code - 128, scene),
        _ => {
            let mut lately = scene.focus().rev().take(CURL_WITHIN).map(|at| scene.lines[at].text.as_str());
            let by_curl = scene.action().contains("curl") || lately.any(|text| text.contains("curl"));
            CURL.iter().find(|(known, _)| by_curl && *known == code).map(|(_, word)| word)
        }
    }
}

/// The last lines in which curl is looked for.
const CURL_WITHIN: usize = 12;

fn by_signal(signal: i32, scene: &Scene<'_>) -> Option<&'static ExitWord> {
    match signal {
        9 if has_memory_limit(scene.action()) => Some(&KILLED_AT_ITS_LIMIT),
        9 => Some(&KILLED),
        2 | 15 => Some(&TERMINATED),
        4 | 6 | 7 | 8 | 11 => Some(&CRASHED),
        _ => None,
    }
}

fn has_memory_limit(action: &str) -> bool {
    static LIMIT: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = Regex::new(r"(?-u)(?:^|\s)(?:-m|--memory(?:-limit)?|-Xmx|MemoryMax=)[= ]?\d");
        pattern.expect("the pattern is a constant, which a test compiles")
    });
    LIMIT.is_match(action)
}

/// As the runner says it.
fn signal(error: &str) -> Option<i32> {
    let (_, number) = error.rsplit_once("was killed by signal ")?;
    number.trim_end_matches('…').parse().ok()
}
