//! Prints the log of a deployment: completely, or followed to the deployment's end through broken connections and
//! restarts of the server. Unchanged when piped; on a terminal with its stages, and with control sequences removed.

use std::convert::Infallible;

use serde::Deserialize;
use serde_json::Value;

use super::api::{Api, query};
use super::failure::{CallError, Failure};
use super::output::text::{Style, harmless, is_turning};
use super::output::{Out, items_of, note, reader_gone, text_of, times};
use super::retry::{Attempts, Retrying};

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
        let wanted = [
            ("format", Some("json".to_owned())),
            ("offset", Some(offset.to_string())),
            ("follow", self.follow.then(|| "true".to_owned())),
            ("stage", self.stage.clone()),
            ("step", self.step.clone()),
        ];
        let wanted = wanted.into_iter().filter_map(|(name, value)| Some((name, value?)));
        format!("/deployments/{}/logs{}", self.deployment, query(wanted))
    }
}

/// Prints the log. If it is followed, returns the deployment after its end.
pub async fn print(api: &Api, query: &LogQuery, printer: &mut Printer) -> Result<Option<Value>, Failure> {
    let retrying = api.retrying();
    let reading = retrying.during(read(api, query, printer, &retrying));
    if !query.follow {
        return reading.await;
    }
    // The log of a deployment that waits for an approval is silent, so report the wait.
    tokio::select! {
        ended = reading => ended,
        never = announce(api, &query.deployment) => match never {},
        () = reader_gone() => Err(Failure::OutputClosed),
    }
}

async fn read(
    api: &Api,
    query: &LogQuery,
    printer: &mut Printer,
    retrying: &Retrying,
) -> Result<Option<Value>, Failure> {
    // Patience is counted from the last answer of the server.
    let mut attempts = Attempts::new(api.patience);
    loop {
        match read_once(api, query, printer, retrying, &mut attempts).await {
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
                attempts.wait().await;
            }
            Err(error) => {
                let pause = attempts.pause(error.retry_after()).filter(|_| error.is_passing(true));
                let Some(pause) = pause else { return Err(error.into()) };
                retrying.failed(error.to_string());
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// Reads until the stream ends.
async fn read_once(
    api: &Api,
    query: &LogQuery,
    printer: &mut Printer,
    retrying: &Retrying,
    attempts: &mut Attempts,
) -> Result<(), CallError> {
    let mut stream = api.stream(&query.path(printer.next), None, retrying).await?;
    retrying.succeeded();
    attempts.restart();
    let mut unfinished: Vec<u8> = Vec::new();
    while let Some(piece) = stream.next().await? {
        attempts.restart();
        unfinished.extend_from_slice(&piece);
        if let Some(end) = unfinished.iter().rposition(|byte| *byte == b'\n') {
            printer.print(&unfinished[..=end]).map_err(CallError::Failure)?;
            unfinished.drain(..=end);
        }
        if unfinished.len() > LINE_BYTES_MAX {
            let words = "the server sent a line of a log without an end".to_owned();
            return Err(CallError::Failure(Failure::Unreachable(words)));
        }
    }
    Ok(())
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

/// Prints lines, and tracks the position for resuming.
pub struct Printer {
    out: Out,
    /// Whether each line begins with its time and its step.
    times: bool,
    /// Stage, step and attempt of the last line.
    section: Option<(Option<String>, Option<String>, Option<u32>)>,
    /// The number of the next line.
    pub next: u64,
    /// Whether the last line is incomplete.
    in_line: bool,
}

impl Printer {
    pub fn new(out: Out, times: bool) -> Self {
        Self { out, times, section: None, next: 0, in_line: false }
    }

    /// Prints complete lines of JSON. An unreadable line is skipped.
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

/// Prints on stderr when the followed deployment waits for an approval. Polls until it is dropped.
async fn announce(api: &Api, deployment: &str) -> Infallible {
    let path = format!("/deployments/{deployment}");
    let (mut etag, mut announced) = (None::<String>, String::new());
    let mut attempts = Attempts::new(api.patience);
    loop {
        let Ok(answer) = api.poll(&path, etag.as_deref(), WAIT_SECONDS, api.patience).await else {
            // Failures are reported by the log itself; this is optional.
            attempts.wait().await;
            continue;
        };
        attempts.restart();
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
    let stages = items_of(&deployment["stages"]);
    let waiting = stages.iter().find(|stage| text_of(&stage["approval"], "status") == "pending")?;
    Some((text_of(waiting, "name"), text_of(waiting, "approvalId")))
}

/// A line without control sequences that would, for example, move the cursor, clear the screen or set the title. Of a
/// line that overwrites itself (`10%\r20%\r`), the last state is kept, as on a terminal.
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
            _ if is_turning(character) => text.push(char::REPLACEMENT_CHARACTER),
            _ if character.is_control() => {}
            _ => text.push(character),
        }
    }
    if is_coloured {
        text.push_str("\u{1b}[0m");
    }
    text
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
    // Skips strings for the terminal, such as titles and links, up to their end or that of the line.
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
