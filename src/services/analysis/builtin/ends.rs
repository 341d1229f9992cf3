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

/// A name for each meaning: its weight and categories, the cause and the fix.
macro_rules! exit_meanings {
    ($($name:ident $weight:literal [$($category:ident),+] $cause:literal $fix:literal)*) => {
        $(const $name: ExitMeaning =
            ExitMeaning { categories: &[$($category),+], weight: $weight, cause: $cause, fix: $fix };)*
    };
}

exit_meanings! {
    NOT_FOUND 62 [MissingCommand, MissingFile] "exit code 127: a command was not found"
        "find the command (the last line before the end, or run it with `set -x`) and install it where the step runs"
    NOT_EXECUTABLE 62 [PermissionDenied, Crashed] "exit code 126: a command was found but cannot be executed"
        "make it executable (`git update-index --chmod=+x`), or call it through its interpreter"
    KILLED 64 [Killed, OutOfMemory] "it was killed with signal 9, most often by the kernel because memory ran out"
        "check the kernel's log (`dmesg`) for the out-of-memory killer; give the step more memory, or make it use less"
    KILLED_AT_ITS_LIMIT 66 [OutOfMemory, Killed] "it was killed with signal 9 while running with a memory limit"
        "raise the memory limit, or make it use less (fewer parallel jobs, smaller batches)"
    TERMINATED 60 [Killed, Timeout] "it was asked to end from outside (signal 15)"
        "find out what ended it: a time limit, a restart of the machine, or another step"
    CRASHED 66 [Crashed, OutOfMemory] "a program crashed in its own code"
        "run it with a debugger or a sanitizer on the same input"
    OUT_OF_TIME 72 [Timeout] "exit code 124: `timeout` ended it"
        "check what it was doing when the time was up; raise the limit only if it really needs longer"
    CURL_NO_HOST 60 [NameResolution] "curl could not resolve a host (exit code 6)"
        "check the host name and its DNS"
    CURL_NO_CONNECTION 60 [ConnectionFailed] "curl could not connect (exit code 7)"
        "check that the other side is running and listening"
    CURL_STATUS 60 [HttpStatus, Authentication, PermissionDenied, RateLimited] "curl got a status of 400 or more (exit code 22)"
        "check the other side's log for the reason; without `-f` curl shows the response"
    CURL_TIMEOUT 60 [Timeout] "curl ran out of time (exit code 28)"
        "check that the other side is reachable and not overloaded"
    CURL_TLS 60 [Tls] "curl could not establish TLS (exit code 35)"
        "check that the port uses TLS, and which versions"
    CURL_NO_RESPONSE 60 [ConnectionFailed] "curl got no response (exit code 52)"
        "check the other side's log at that time"
    CURL_BROKE_OFF 60 [ConnectionFailed] "curl's connection broke off (exit code 56)"
        "check the other side's log at that time"
    CURL_NO_TRUST 60 [Tls] "curl does not trust the server's certificate (exit code 60)"
        "renew the certificate, or add its authority to the trust store"
    CURL_NO_CERTIFICATES 60 [Tls] "curl cannot read its certificates (exit code 77)"
        "install the package of CA certificates"
}

/// Exit codes of curl, the last command of many scripts.
fn by_curl(code: i32) -> Option<&'static ExitMeaning> {
    match code {
        6 => Some(&CURL_NO_HOST),
        7 => Some(&CURL_NO_CONNECTION),
        22 => Some(&CURL_STATUS),
        28 => Some(&CURL_TIMEOUT),
        35 => Some(&CURL_TLS),
        52 => Some(&CURL_NO_RESPONSE),
        56 => Some(&CURL_BROKE_OFF),
        60 => Some(&CURL_NO_TRUST),
        77 => Some(&CURL_NO_CERTIFICATES),
        _ => None,
    }
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
            let is_curl = view.action().contains("curl") || lately.any(|text| text.contains("curl"));
            is_curl.then(|| by_curl(code))?
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
