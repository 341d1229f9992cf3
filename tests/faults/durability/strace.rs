//! A server under strace: the order of its system calls, or a kernel that fails at a chosen call.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{skipped, until};
use crate::support::Setup;

const SIGKILL: i32 = 9;

/// Prints the reason if strace cannot be used.
pub fn is_usable() -> bool {
    match Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output() {
        Ok(output) if output.status.success() => return true,
        Err(error) if error.kind() == ErrorKind::NotFound => skipped("strace is not installed"),
        Ok(_) | Err(_) => skipped("ptrace is not permitted"),
    }
    false
}

/// A server under strace, which writes to `output`. `-D`: the server stays our child, so that killing it and its exit
/// code work as usual.
pub fn under(setup: Setup, output: &Path, options: &[&str]) -> Setup {
    let words = ["strace", "-D", "-f", "-y", "-s", "800", "-o"];
    setup.under(&[&words[..], &[output.to_str().unwrap()], options].concat())
}

/// Starts a server that is killed when one of its threads makes this system call for the `place`th time. False if it
/// served before that.
pub fn cuts_start_short(home: &Path, call: &str, place: u32) -> bool {
    let kill = format!("inject={call}:signal=SIGKILL:when={place}");
    let trace = format!("trace={call}");
    let setup = under(Setup::default(), &home.join("trace"), &["-e", &trace, "-e", &kill]);
    let mut child = setup.command(home).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.contains("serves on") {
        child.kill().unwrap();
        child.wait().unwrap();
        return false;
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(SIGKILL), "{call} {place}: {said}");
    true
}

/// The system calls of an ended server, in their order.
pub struct Trace {
    pub steps: Vec<Step>,
}

/// A call was entered or has returned; calls of other threads may be in between.
#[derive(Debug)]
pub struct Step {
    pub call: String,
    pub arguments: String,
    pub moment: Moment,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Moment {
    Entered,
    Returned(String),
}

impl Trace {
    /// Waits until strace has written everything.
    pub async fn of(pid: u32, output: PathBuf) -> Self {
        let pid = pid.to_string();
        let is_end = |line: &str| line.split_whitespace().take(2).eq([pid.as_str(), "+++"]);
        let read = || std::future::ready(std::fs::read_to_string(&output).unwrap_or_default());
        let text = until("the end of the trace", read, |text| text.lines().any(is_end)).await;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Self {
        let mut steps = Vec::new();
        let mut entered: HashMap<&str, (String, String)> = HashMap::new();
        for line in text.lines() {
            let (pid, rest) = line.split_once(' ').unwrap();
            let rest = rest.trim_start();
            if let Some(resumed) = rest.strip_prefix("<... ") {
                let (call, rest) = resumed.split_once(" resumed>").unwrap();
                let Some((_, before)) = entered.remove(pid) else {
                    continue;
                };
                steps.push(Step::returned(call, &(before + rest)));
            } else if let Some((call, rest)) = rest.split_once('(').filter(|(call, _)| is_name(call)) {
                let arguments = rest.trim_end_matches("<unfinished ...>");
                steps.push(Step { call: call.to_owned(), arguments: arguments.to_owned(), moment: Moment::Entered });
                if rest.ends_with("<unfinished ...>") {
                    entered.insert(pid, (call.to_owned(), arguments.to_owned()));
                } else {
                    steps.push(Step::returned(call, arguments));
                }
            }
        }
        Self { steps }
    }

    /// The index of the first call after `from` that has all of these texts in its arguments.
    pub fn find(&self, from: usize, calls: &[&str], entered: bool, texts: &[&str]) -> Option<usize> {
        let is_it = |step: &Step| {
            calls.contains(&step.call.as_str())
                && (step.moment == Moment::Entered) == entered
                && texts.iter().all(|text| step.arguments.contains(text))
        };
        let found = self.steps[from..].iter().position(is_it)?;
        Some(from + found)
    }
}

impl Step {
    fn returned(call: &str, rest: &str) -> Self {
        let (arguments, result) = rest.rsplit_once(" = ").unwrap_or((rest, "?"));
        Self { call: call.to_owned(), arguments: arguments.to_owned(), moment: Moment::Returned(result.to_owned()) }
    }
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}
