//! What the end of a step means by itself: its exit code, the signal that killed it, its time limit.

use std::sync::LazyLock;

use regex::Regex;

use super::case_view::CaseView;
use crate::analysis::Category;
use crate::domain::StageStatus;

/// An end other than a plain failure: nothing in the log can say more about the category.
pub(super) enum Verdict {
    Interrupted,
    Rejected,
    Cancelled,
    TimedOut { seconds: Option<u32> },
}

pub(super) fn verdict(view: &CaseView<'_>) -> Option<Verdict> {
    let error = view.error();
    if error.starts_with("interrupted: ") {
        return Some(Verdict::Interrupted);
    }
    let name = view.stage.map(|stage| stage.name.as_str()).unwrap_or_default();
    if error.starts_with(&format!("stage `{name}` was rejected by ")) {
        return Some(Verdict::Rejected);
    }
    if error.starts_with(&format!("stage `{name}`: the stage took longer than its ")) {
        return Some(Verdict::TimedOut { seconds: view.stage.and_then(|stage| stage.timeout_seconds) });
    }
    let cancelled = view.stage.is_some_and(|stage| stage.status == StageStatus::Cancelled);
    cancelled.then_some(Verdict::Cancelled)
}

/// The meaning of an exit code that has one.
pub(super) struct ExitMeaning {
    /// The first one applies if no line says more.
    pub categories: &'static [Category],
    pub weight: u8,
    pub cause: &'static str,
    pub fix: &'static str,
}

use Category::{
    Authentication, ConnectionFailed, Crashed, HttpStatus, Killed, MissingCommand, MissingFile, NameResolution,
    OutOfMemory, PermissionDenied, RateLimited, Timeout, Tls,
};

const NOT_FOUND: ExitMeaning = ExitMeaning {
    categories: &[MissingCommand, MissingFile],
    weight: 62,
    cause: "exit code 127: a command was not found",
    fix: "find the command (the last line before the end, or run it with `set -x`) and install it where the step runs",
};
const NOT_EXECUTABLE: ExitMeaning = ExitMeaning {
    categories: &[PermissionDenied, Crashed],
    weight: 62,
    cause: "exit code 126: a command was found but cannot be executed",
    fix: "make it executable (`git update-index --chmod=+x`), or call it through its interpreter",
};
const KILLED: ExitMeaning = ExitMeaning {
    categories: &[Killed, OutOfMemory],
    weight: 64,
    cause: "it was killed with signal 9, most often by the kernel because memory ran out",
    fix: "look at the kernel's log (`dmesg`) for the out-of-memory killer; give the step more memory, or make it use less",
};
const KILLED_AT_ITS_LIMIT: ExitMeaning = ExitMeaning {
    categories: &[OutOfMemory, Killed],
    weight: 66,
    cause: "it was killed with signal 9 while running with a memory limit",
    fix: "raise the memory limit, or make it use less (fewer parallel jobs, smaller batches)",
};
const TERMINATED: ExitMeaning = ExitMeaning {
    categories: &[Killed, Timeout],
    weight: 60,
    cause: "it was asked to end from outside (signal 15)",
    fix: "find out what ended it: a time limit, a restart of the machine, or another step",
};
const CRASHED: ExitMeaning = ExitMeaning {
    categories: &[Crashed, OutOfMemory],
    weight: 66,
    cause: "a program crashed in its own code",
    fix: "run it with a debugger or a sanitizer on the same input",
};
const OUT_OF_TIME: ExitMeaning = ExitMeaning {
    categories: &[Timeout],
    weight: 72,
    cause: "exit code 124: `timeout` ended it",
    fix: "check what it was doing when the time was up; raise the limit only if it really needs longer",
};

/// Exit codes of curl, the last command of many scripts.
const CURL: &[(i32, ExitMeaning)] = &[
    (6, curl(&[NameResolution], "curl could not resolve a host (exit code 6)", "check the host name and its DNS")),
    (
        7,
        curl(
            &[ConnectionFailed],
            "curl could not connect (exit code 7)",
            "check that the other side is running and listening",
        ),
    ),
    (
        22,
        curl(
            &[HttpStatus, Authentication, PermissionDenied, RateLimited],
            "curl got a status of 400 or more (exit code 22)",
            "check the other side's log for the reason; without `-f` curl shows the response",
        ),
    ),
    (
        28,
        curl(
            &[Timeout],
            "curl ran out of time (exit code 28)",
            "check that the other side is reachable and not overloaded",
        ),
    ),
    (
        35,
        curl(&[Tls], "curl could not establish TLS (exit code 35)", "check that the port uses TLS, and which versions"),
    ),
    (52, curl(&[ConnectionFailed], "curl got no response (exit code 52)", "check the other side's log at that time")),
    (
        56,
        curl(
            &[ConnectionFailed],
            "curl's connection broke off (exit code 56)",
            "check the other side's log at that time",
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

const fn curl(categories: &'static [Category], cause: &'static str, fix: &'static str) -> ExitMeaning {
    ExitMeaning { categories, weight: 60, cause, fix }
}

pub(super) fn exit_meaning(view: &CaseView<'_>) -> Option<&'static ExitMeaning> {
    if let Some(signal) = signal(view.error()) {
        return by_signal(signal, view);
    }
    let code = view.exit_code()?;
    match code {
        124 => Some(&OUT_OF_TIME),
        126 => Some(&NOT_EXECUTABLE),
        127 => Some(&NOT_FOUND),
        129..=159 => by_signal(code - 128, view),
        _ => {
            let mut lately = view.focus().rev().take(CURL_WITHIN).map(|at| view.lines[at].text.as_str());
            let by_curl = view.action().contains("curl") || lately.any(|text| text.contains("curl"));
            CURL.iter().find(|(known, _)| by_curl && *known == code).map(|(_, word)| word)
        }
    }
}

/// curl is searched for in this many last lines.
const CURL_WITHIN: usize = 12;

fn by_signal(signal: i32, view: &CaseView<'_>) -> Option<&'static ExitMeaning> {
    match signal {
        9 if has_memory_limit(view.action()) => Some(&KILLED_AT_ITS_LIMIT),
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

/// As worded by the runner.
fn signal(error: &str) -> Option<i32> {
    let (_, number) = error.rsplit_once("was killed by signal ")?;
    number.trim_end_matches('…').parse().ok()
}
