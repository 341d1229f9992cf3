//! Prints the log of a deployment: completely, or followed to the deployment's end through broken connections and
//! restarts of the server. Unchanged when piped; on a terminal with its stages, and with control sequences removed.

use std::convert::Infallible;
use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use super::api::{ANSWER_WITHIN, Api, CallError};
use super::failure::Failure;
use super::output::text::{Style, harmless};
use super::output::{Out, note, reader_gone, text_of, times};
use super::retry::{self, Retrying};
use super::steady::Moment;

/// The longest line of a log as JSON; the server's own limit is far lower.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The requested lines.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    pub deployment: String,
    pub stage: Option<String>,
    pub step: Option<String>,
    pub follow: bool,
}

impl LogQuery {
    fn path(&self, offset: u64) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("format", "json").append_pair("offset", &offset.to_string());
        if self.follow {
            query.append_pair("follow", "true");
        }
        for (name, value) in [("stage", &self.stage), ("step", &self.step)] {
            value.iter().for_each(|value| {
                query.append_pair(name, value);
            });
        }
        format!("/deployments/{}/logs?{}", self.deployment, query.finish())
    }
}

/// Prints the log. If it is followed, returns the deployment after its end.
pub async fn print(api: &Api, query: &LogQuery, printer: &mut Printer) -> Result<Option<Value>, Failure> {
    if !query.follow {
        return read(api, query, printer).await;
    }
    // The log of a deployment that waits for an approval is silent, so report the wait.
    tokio::select! {
        ended = read(api, query, printer) => ended,
        never = announce(api, &query.deployment) => match never {},
        () = reader_gone() => Err(Failure::OutputClosed),
    }
}

async fn read(api: &Api, query: &LogQuery, printer: &mut Printer) -> Result<Option<Value>, Failure> {
    let retrying = Retrying::new(api.patience(), format!("waiting for an answer of {}", api.url()));
    tokio::select! {
        ended = read_on(api, query, printer, &retrying) => ended,
        never = retrying.show() => match never {},
    }
}

async fn read_on(
    api: &Api,
    query: &LogQuery,
    printer: &mut Printer,
    retrying: &Retrying,
) -> Result<Option<Value>, Failure> {
    let mut patience = WaitPolicy::new(api, retrying);
    loop {
        match read_once(api, query, printer, &mut patience).await {
            Ok(()) if !query.follow => {
                printer.finish()?;
                return Ok(None);
            }
            Ok(()) => {
                let deployment = api.get(&format!("/deployments/{}", query.deployment)).await?.data;
                if matches!(text_of(&deployment, "status"), "succeeded" | "failed" | "cancelled") {
                    printer.finish()?;
                    return Ok(Some(deployment));
                }
                // The server is stopping or has just restarted: continue at the same position.
                retrying.failed(format!("{} closed the log before the deployment ended", api.url()));
                patience.pause().await;
            }
            Err(ReadError::Output(failure)) => return Err(failure),
            Err(ReadError::Call(error)) => patience.bear(error).await?,
        }
    }
}

enum ReadError {
    Call(CallError),
    Output(Failure),
}

/// Reads until the stream ends.
async fn read_once(
    api: &Api,
    query: &LogQuery,
    printer: &mut Printer,
    patience: &mut WaitPolicy<'_>,
) -> Result<(), ReadError> {
    let mut stream = api.stream(&query.path(printer.next), None, patience.retrying).await.map_err(ReadError::Call)?;
    patience.renew();
    let mut unfinished: Vec<u8> = Vec::new();
    while let Some(piece) = stream.next().await.map_err(ReadError::Call)? {
        unfinished.extend_from_slice(&piece);
        if let Some(end) = unfinished.iter().rposition(|byte| *byte == b'\n') {
            printer.print(&unfinished[..=end]).map_err(ReadError::Output)?;
            unfinished.drain(..=end);
        }
        if unfinished.len() > LINE_BYTES_MAX {
            let words = "the server sent a line of a log without an end".to_owned();
            return Err(ReadError::Output(Failure::Unreachable(words)));
        }
    }
    Ok(())
}

/// Failures are tolerated for as long as a request is repeated, counted from the last answer of the server.
struct WaitPolicy<'a> {
    retrying: &'a Retrying,
    all: Duration,
    answered: Moment,
    attempt: u32,
}

impl<'a> WaitPolicy<'a> {
    fn new(api: &Api, retrying: &'a Retrying) -> Self {
        Self { retrying, all: api.patience(), answered: Moment::now(), attempt: 0 }
    }

    fn renew(&mut self) {
        self.retrying.succeeded();
        (self.answered, self.attempt) = (Moment::now(), 0);
    }

    async fn pause(&mut self) {
        tokio::time::sleep(retry::pause(self.attempt, None, rand::random())).await;
        self.attempt = self.attempt.saturating_add(1);
    }

    /// Waits before the next attempt, or fails if there should be none.
    async fn bear(&mut self, error: CallError) -> Result<(), Failure> {
        if !error.is_passing() || Moment::now().since(self.answered) > self.all {
            return Err(error.into());
        }
        self.retrying.failed(error.to_string());
        self.pause().await;
        Ok(())
    }
}

/// A line as the server sends it.
#[derive(Debug, Deserialize)]
struct Line {
    line: u64,
    #[serde(default)]
    at: String,
    stage: Option<String>,
    step: Option<String>,
    attempt: Option<u32>,
    text: String,
    #[serde(default)]
    partial: bool,
}

type Section = (Option<String>, Option<String>, Option<u32>);

/// Prints lines, and tracks the position for resuming.
pub struct Printer {
    out: Out,
    /// Whether each line begins with its time and its step.
    times: bool,
    section: Option<Section>,
    /// The number of the next line.
    pub next: u64,
    /// Whether the last line is incomplete.
    in_line: bool,
}

impl Printer {
    pub fn new(out: Out, times: bool) -> Self {
        Self { out, times, section: None, next: 0, in_line: false }
    }

    /// Complete lines of JSON. An unreadable line is skipped.
    pub fn print(&mut self, lines: &[u8]) -> Result<(), Failure> {
        let mut text = String::new();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Ok(record) = serde_json::from_slice::<Value>(line) else { continue };
            let Ok(line) = Line::deserialize(&record) else { continue };
            self.next = self.next.max(line.line + 1);
            if self.out.json {
                text += &format!("{record}\n");
            } else {
                self.add(&line, &mut text);
            }
        }
        if text.is_empty() { Ok(()) } else { self.out.write(&text) }
    }

    /// Ends an incomplete last line on a terminal.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let open = std::mem::take(&mut self.in_line);
        if open && self.out.terminal && !self.out.json { self.out.write("\n") } else { Ok(()) }
    }

    fn add(&mut self, line: &Line, text: &mut String) {
        if !self.in_line {
            self.begin(line, text);
        }
        if self.out.terminal {
            text.push_str(&shown(&line.text, self.out.colour));
        } else {
            text.push_str(&line.text);
        }
        self.in_line = line.partial;
        if !line.partial {
            text.push('\n');
        }
    }

    fn begin(&mut self, line: &Line, text: &mut String) {
        let name = match (&line.stage, &line.step) {
            (Some(stage), Some(step)) => harmless(&format!("{stage}/{step}")),
            (_, _) => "server".to_owned(),
        };
        if self.times {
            let prefix = self.out.paint(&format!("{} {name}", times::clock(&line.at)), Style::Dim);
            text.push_str(&format!("{prefix}  "));
            return;
        }
        let section = (line.stage.clone(), line.step.clone(), line.attempt);
        if self.out.terminal && self.section.as_ref() != Some(&section) {
            let attempt = line.attempt.filter(|attempt| *attempt > 1);
            let attempt = attempt.map(|attempt| format!(", attempt {attempt}")).unwrap_or_default();
            text.push_str(&self.out.paint(&format!("── {name}{attempt}"), Style::Dim));
            text.push('\n');
            self.section = Some(section);
        }
    }
}

/// How long the server waits for a change of the deployment before it answers without one.
const WAIT_SECONDS: u64 = 50;

/// Prints on stderr when the followed deployment waits for an approval, for as long as it is polled.
async fn announce(api: &Api, deployment: &str) -> Infallible {
    let mut etag: Option<String> = None;
    let (mut announced, mut attempt) = (String::new(), 0);
    loop {
        let wait = if etag.is_some() { WAIT_SECONDS } else { 0 };
        let mut call = api.call(Method::GET, &format!("/deployments/{deployment}?waitSeconds={wait}"));
        call.timeout = ANSWER_WITHIN + Duration::from_secs(WAIT_SECONDS);
        call.headers.extend(etag.clone().map(|etag| ("If-None-Match", etag)));
        let Ok(answer) = api.send(call).await else {
            // Failures are reported by the log itself; this is optional.
            tokio::time::sleep(retry::pause(attempt, None, rand::random())).await;
            attempt = attempt.saturating_add(1);
            continue;
        };
        attempt = 0;
        if let Some((stage, approval)) = pending(&answer.data)
            && approval != announced
        {
            approval.clone_into(&mut announced);
            note(&harmless(&format!("stage {stage} waits for an approval: lockkeeper approve {approval}")));
        }
        etag = answer.etag.or(etag);
    }
}

/// The waiting stage and its approval.
fn pending(deployment: &Value) -> Option<(&str, &str)> {
    let stages = deployment["stages"].as_array()?;
    let waiting = stages.iter().find(|stage| text_of(&stage["approval"], "status") == "pending")?;
    Some((text_of(waiting, "name"), text_of(waiting, "approvalId")))
}

/// A line without control sequences that would move the cursor, clear the screen, set the title or the like. Of a line
/// that overwrites itself (`10%\r20%\r`), the last state stays, as on a terminal.
fn shown(line: &str, colour: bool) -> String {
    let line = line.trim_end_matches('\r');
    let line = line.rsplit('\r').next().unwrap_or(line);
    let mut text = String::with_capacity(line.len());
    let mut is_coloured = false;
    let mut rest = line.chars();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => {
                let (sequence, after) = escape(rest.as_str());
                rest = after.chars();
                if let (Some(sequence), true) = (sequence, colour) {
                    text.push_str("\u{1b}[");
                    text.push_str(sequence);
                    is_coloured = true;
                }
            }
            '\t' => text.push('\t'),
            _ if turns(character) => text.push(char::REPLACEMENT_CHARACTER),
            _ if character.is_control() => {}
            _ => text.push(character),
        }
    }
    if is_coloured {
        text.push_str("\u{1b}[0m");
    }
    text
}

/// Characters that change the direction of the text around them.
fn turns(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Splits the text after an escape character: the colour without its `[`, if it is one, and the rest of the line.
fn escape(text: &str) -> (Option<&str>, &str) {
    if let Some(control) = text.strip_prefix('[') {
        let end = control.find(|character: char| ('\u{40}'..='\u{7e}').contains(&character));
        let Some(end) = end else { return (None, "") };
        let (sequence, after) = control.split_at(end + 1);
        let parameters = sequence.strip_suffix('m');
        let is_colour =
            parameters.is_some_and(|all| all.bytes().all(|byte| byte.is_ascii_digit() || b";:".contains(&byte)));
        return (is_colour.then_some(sequence), after);
    }
    // Strings for the terminal, such as titles and links: up to their end, or that of the line.
    if let Some(string) = text.strip_prefix([']', 'P', 'X', '^', '_']) {
        let end = string.find(['\u{7}', '\u{1b}', '\u{9c}']);
        let after = end.map_or("", |end| &string[end..]);
        let after = after.strip_prefix("\u{1b}\\").or(after.strip_prefix(['\u{7}', '\u{9c}'])).unwrap_or(after);
        return (None, after);
    }
    let mut after = text.chars();
    after.next();
    (None, after.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(number: u64, text: &str, partial: bool) -> Line {
        Line {
            line: number,
            at: "2026-11-15T10:03:00.123Z".to_owned(),
            stage: Some("build".to_owned()),
            step: Some("compile".to_owned()),
            attempt: Some(2),
            text: text.to_owned(),
            partial,
        }
    }

    fn printed(terminal: bool, times: bool, lines: &[Line]) -> String {
        let mut printer = Printer::new(Out { json: false, colour: false, terminal }, times);
        let mut text = String::new();
        lines.iter().for_each(|line| printer.add(line, &mut text));
        text
    }

    #[test]
    fn piped_it_is_the_output_as_written() {
        let lines = [line(0, "a\u{1b}[2J", false), line(1, "b", true), line(2, "c", false)];
        assert_eq!(printed(false, false, &lines), "a\u{1b}[2J\nbc\n");
    }

    #[test]
    fn a_terminal_gets_the_stages_and_no_tricks() {
        let lines = [line(0, "a\u{1b}[2J", false), line(1, "b", false)];
        assert_eq!(printed(true, false, &lines), "── build/compile, attempt 2\na\nb\n");
    }

    #[test]
    fn each_line_can_have_its_time() {
        let lines = [line(0, "a", true), line(1, "b", false), line(2, "c", false)];
        let (first, second) = ("2026-11-15 10:03:00 build/compile  ab\n", "2026-11-15 10:03:00 build/compile  c\n");
        assert_eq!(printed(false, true, &lines), format!("{first}{second}"));
    }

    #[test]
    fn the_stage_that_waits_is_found() {
        let approved = json!({ "name": "test", "approvalId": "apr_1", "approval": { "status": "approved" } });
        let waiting = json!({ "name": "deploy", "approvalId": "apr_2", "approval": { "status": "pending" } });
        let plain = json!({ "name": "build", "approvalId": null, "approval": null });
        let deployment = json!({ "stages": [plain, approved, waiting] });
        assert_eq!(pending(&deployment), Some(("deploy", "apr_2")));
        assert_eq!(pending(&json!({ "stages": [plain] })), None);
        assert_eq!(pending(&json!(null)), None);
    }

    #[test]
    fn colours_stay_and_end_with_their_line() {
        assert_eq!(shown("\u{1b}[1;31mfailed\u{1b}[m here", true), "\u{1b}[1;31mfailed\u{1b}[m here\u{1b}[0m");
        assert_eq!(shown("\u{1b}[1;31mfailed\u{1b}[m here", false), "failed here");
    }

    #[test]
    fn nothing_else_reaches_the_terminal() {
        for (line, left) in [
            ("a\u{1b}[2Jb", "ab"),
            ("a\u{1b}[10;10Hb", "ab"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\u{1b}]8;;https://x\u{1b}\\link\u{1b}]8;;\u{1b}\\b", "alinkb"),
            ("a\u{1b}]52;c;x", "a"),
            ("a\u{1b}Pq\u{9c}b", "ab"),
            ("a\u{1b}cb", "ab"),
            ("a\u{1b}[?25lb\u{8}\u{0}", "ab"),
            ("a\u{1b}[>1mb", "ab"),
            ("a\u{1b}[31", "a"),
            ("a\u{1b}", "a"),
            ("a\u{9b}2Jb", "a2Jb"),
            ("a\u{202e}b", "a\u{fffd}b"),
            ("a\tb", "a\tb"),
        ] {
            assert_eq!(shown(line, true), left, "{line:?}");
        }
    }

    #[test]
    fn of_a_line_that_was_overwritten_the_last_state_is_shown() {
        assert_eq!(shown("10%\r50%\r100%\r", true), "100%");
        assert_eq!(shown("done\r", true), "done");
    }
}
