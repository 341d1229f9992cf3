//! Lines of a log as they are printed: as written when piped; with their stages, and without tricks, on a terminal.

use serde::Deserialize;
use serde_json::Value;

use super::escapes;
use crate::failure::Failure;
use crate::output::Out;
use crate::output::paint::Style;
use crate::output::text::harmless;
use crate::output::times;

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

/// Prints lines, and knows where to go on.
pub struct Printer {
    out: Out,
    /// Whether each line begins with its time and its step.
    times: bool,
    section: Option<Section>,
    /// The number of the next line.
    pub next: u64,
    /// Whether the last line goes on.
    in_line: bool,
}

impl Printer {
    pub fn new(out: Out, times: bool) -> Self {
        Self { out, times, section: None, next: 0, in_line: false }
    }

    /// Lines of JSON, each whole. One that cannot be read is left out, rather than the rest.
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

    /// Ends a line that the log does not end, on a terminal.
    pub fn finish(&mut self) -> Result<(), Failure> {
        let open = std::mem::take(&mut self.in_line);
        if open && self.out.terminal && !self.out.json { self.out.write("\n") } else { Ok(()) }
    }

    fn add(&mut self, line: &Line, text: &mut String) {
        if !self.in_line {
            self.begin(line, text);
        }
        if self.out.terminal {
            text.push_str(&escapes::shown(&line.text, self.out.colour));
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

#[cfg(test)]
mod tests {
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
}
