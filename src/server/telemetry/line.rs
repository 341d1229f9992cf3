//! One line of the log, as text or JSON. Fields may contain outside text, such as paths, names and responses of other
//! servers, so every field is cut and its control characters are escaped. Lines are left out if similar ones were just
//! written: a failing loop or a stranger's refused requests must not fill a disk.

use std::collections::HashMap;
use std::fmt::{self, Debug, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config::LogFormat;

/// More than any of the server's own sentences with its names; errors of other servers may be cut.
const FIELD_CHARACTERS_MAX: usize = 1_000;
/// How many similar lines were left out before this one. An event that already has this field is itself such a report.
const LEFT_OUT: &str = "left_out";

/// Marks events whose number the caller bounds. They are always written, without this field. Otherwise one stranger's
/// refused requests would suppress the reasons of everybody else's.
const BOUNDED: &str = "bounded";

/// Formats events as lines and throttles them.
pub struct Lines {
    format: LogFormat,
    began: Instant,
    throttle: Mutex<Throttle>,
}

impl Lines {
    pub fn new(format: LogFormat) -> Self {
        Self { format, began: Instant::now(), throttle: Mutex::default() }
    }

    /// Logs how many lines were left out of each kind that has not been written since.
    pub fn report_left_out(&self) {
        let left_out = self.throttle.lock().take_left_out(self.began.elapsed());
        for (of, left_out) in left_out {
            tracing::warn!(left_out, "left out more lines like: {of}");
        }
    }

    /// How many similar lines were left out before this one; `None` if this one is left out, too.
    fn left_out_before(&self, event: &Event<'_>, fields: &Fields) -> Option<u64> {
        let level = *event.metadata().level();
        if level > Level::INFO || fields.has_left_out || fields.is_bounded {
            return Some(0);
        }
        let place = fields.place(event);
        match self.throttle.lock().judge(place, level, &fields.message, fields.hash(), self.began.elapsed()) {
            Verdict::Write { left_out } => Some(left_out),
            Verdict::LeaveOut => None,
        }
    }
}

impl<S, N> FormatEvent<S, N> for &'static Lines
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        // A left-out event writes nothing.
        let Some(left_out) = self.left_out_before(event, &fields) else { return Ok(()) };
        if left_out > 0 {
            fields.named.push((LEFT_OUT, Value::from(left_out), false));
        }
        let mut spans = String::new();
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let of_span = extensions.get::<FormattedFields<N>>().map_or("", |fields| fields.as_str());
            write!(spans, "{}{{{}}}: ", span.name(), harmless(format_args!("{of_span}")))?;
        }
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let line =
            Line { time, level: *event.metadata().level(), target: fields.target(event), spans, fields: &fields };
        match self.format {
            LogFormat::Text => line.write_text(writer),
            LogFormat::Json => line.write_json(writer),
        }
    }
}

struct Line<'a> {
    time: String,
    level: Level,
    target: &'a str,
    spans: String,
    fields: &'a Fields,
}

impl Line<'_> {
    fn write_text(&self, mut writer: Writer<'_>) -> fmt::Result {
        let Self { time, level, target, spans, fields } = self;
        if writer.has_ansi_escapes() {
            let colour = match *level {
                Level::ERROR => 31,
                Level::WARN => 33,
                Level::INFO => 32,
                _ => 34,
            };
            write!(writer, "\x1b[2m{time}\x1b[0m \x1b[{colour}m{level:>5}\x1b[0m {spans}\x1b[2m{target}:\x1b[0m ")?;
        } else {
            write!(writer, "{time} {level:>5} {spans}{target}: ")?;
        }
        let mut gap = "";
        if !fields.message.is_empty() {
            write!(writer, "{}", fields.message)?;
            gap = " ";
        }
        for (name, value, is_quoted) in &fields.named {
            match value {
                Value::String(text) if !is_quoted && is_one_word(text) => write!(writer, "{gap}{name}={text}")?,
                value => write!(writer, "{gap}{name}={value}")?,
            }
            gap = " ";
        }
        writeln!(writer)
    }

    fn write_json(&self, mut writer: Writer<'_>) -> fmt::Result {
        let Self { time, level, target, spans, fields } = self;
        write!(
            writer,
            "{{\"timestamp\":\"{time}\",\"level\":\"{level}\",\"message\":{}",
            Value::from(&*fields.message)
        )?;
        for (name, value, _) in &fields.named {
            write!(writer, ",\"{name}\":{value}")?;
        }
        write!(writer, ",\"target\":{}", Value::from(*target))?;
        if !spans.is_empty() {
            write!(writer, ",\"spans\":{}", Value::from(spans.trim_end()))?;
        }
        writeln!(writer, "}}")
    }
}

/// The fields of an event, each cut to its limit.
#[derive(Default)]
struct Fields {
    message: String,
    /// The flag says whether the value is quoted.
    named: Vec<(&'static str, Value, bool)>,
    has_left_out: bool,
    is_bounded: bool,
    /// The target of a record of the `log` crate.
    log_target: Option<String>,
}

impl Fields {
    fn target<'a>(&'a self, event: &Event<'a>) -> &'a str {
        self.log_target.as_deref().unwrap_or_else(|| event.metadata().target())
    }

    /// Identifies the place that logs. All records of the `log` crate come from one call site, so their target tells
    /// them apart.
    fn place(&self, event: &Event<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.target(event), event.metadata().line()).hash(&mut hasher);
        hasher.finish()
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.message.hash(&mut hasher);
        self.named.hash(&mut hasher);
        hasher.finish()
    }

    fn add(&mut self, field: &Field, value: Value, is_quoted: bool) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            ("log.target", Value::String(text)) => self.log_target = Some(text),
            (name, _) if name.starts_with("log.") => {}
            (BOUNDED, _) => self.is_bounded = true,
            (name, value) => {
                self.has_left_out |= name == LEFT_OUT;
                self.named.push((name, value, is_quoted));
            }
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, harmless(format_args!("{value:?}")).into(), false);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, harmless(format_args!("{value}")).into(), true);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into(), false);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into(), false);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into(), false);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into(), false);
    }
}

/// Anything else is quoted, so that outside text cannot look like further fields.
fn is_one_word(text: &str) -> bool {
    !text.is_empty() && !text.contains([' ', '=', '"'])
}

/// The text, cut, with control characters escaped. It formats no more than is shown.
fn harmless(text: fmt::Arguments<'_>) -> String {
    let mut cut = Cut { text: String::new(), left: FIELD_CHARACTERS_MAX };
    if cut.write_fmt(text).is_err() && cut.left == 0 {
        cut.text.push('…');
    }
    cut.text
}

struct Cut {
    text: String,
    left: usize,
}

impl Write for Cut {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        for character in piece.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            if is_harmless(character) {
                self.text.push(character);
            } else {
                self.text.extend(character.escape_default());
            }
        }
        Ok(())
    }
}

/// Excludes characters that end a line, move a terminal's cursor or change the text direction.
fn is_harmless(character: char) -> bool {
    !character.is_control() && !matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// An identical warning is written once in this time.
const SAME_EVERY: Duration = Duration::from_secs(5);
/// More places than the program and its libraries have. Any further ones share one entry.
const CALL_SITES_MAX: usize = 10_000;
/// How many different warnings one place may write in a burst, and the interval for each further one.
const WARNINGS: Bucket = Bucket { burst: 40, refill: Duration::from_secs(1) };
/// Higher than for warnings: operators often need each entry, such as one per created token.
const NOTES: Bucket = Bucket { burst: 200, refill: Duration::from_millis(100) };

struct Bucket {
    burst: u32,
    refill: Duration,
}

/// A hash of a place in the program that logs: the module path and the line.
type CallSiteHash = u64;

#[derive(Default)]
struct Throttle(HashMap<CallSiteHash, Site>);

#[derive(Default)]
struct Site {
    /// When it may write a whole burst again.
    full_at: Duration,
    left_out: u64,
    /// The newest warnings with their times: at most a burst, and those refilled since.
    lines: Vec<(u64, Duration)>,
    /// The message of the last written event.
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// `left_out`: similar lines that were left out since the last one.
    Write {
        left_out: u64,
    },
    LeaveOut,
}

impl Throttle {
    /// Decides whether an event is written; `line` is a hash of all its content.
    fn judge(&mut self, place: CallSiteHash, level: Level, message: &str, line: u64, now: Duration) -> Verdict {
        let is_warning = level <= Level::WARN;
        let bucket = if is_warning { WARNINGS } else { NOTES };
        let has_room = self.0.len() < CALL_SITES_MAX || self.0.contains_key(&place);
        let site = self.0.entry(if has_room { place } else { CallSiteHash::default() }).or_default();
        site.lines.retain(|(_, at)| now < *at + SAME_EVERY);
        let is_known = is_warning && site.lines.iter().any(|(known, _)| *known == line);
        let full_at = site.full_at.max(now) + bucket.refill;
        if is_known || full_at > now + bucket.refill * bucket.burst {
            site.left_out += 1;
            return Verdict::LeaveOut;
        }
        site.full_at = full_at;
        if is_warning {
            site.lines.push((line, now));
        }
        message.clone_into(&mut site.message);
        Verdict::Write { left_out: std::mem::take(&mut site.left_out) }
    }

    /// The messages whose lines were left out, with counts, at places that have been quiet for a while.
    fn take_left_out(&mut self, now: Duration) -> Vec<(String, u64)> {
        let quiet = |site: &&mut Site| site.left_out > 0 && site.lines.iter().all(|(_, at)| now >= *at + SAME_EVERY);
        let quiet = self.0.values_mut().filter(quiet);
        quiet.map(|site| (site.message.clone(), std::mem::take(&mut site.left_out))).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io;
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that these events write, without their times.
    fn logged(format: LogFormat, events: impl FnOnce()) -> Vec<String> {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .event_format(&*Box::leak(Box::new(Lines::new(format))))
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, events);
        let bytes = written.0.lock().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| line.split_once('Z').map_or(line, |(_, rest)| rest).to_owned()).collect()
    }

    fn from_outside(path: &str) {
        tracing::warn!(path, reason = %path, status = 503, "a request failed");
    }

    #[test]
    fn text_from_outside_makes_no_line_of_its_own() {
        let forged = "/a\nINFO all is well\u{1b}[2J\u{2028}\u{202e}\r";
        let text = logged(LogFormat::Text, || from_outside(forged));
        let escaped = r"/a\nINFO all is well\u{1b}[2J\u{2028}\u{202e}\r";
        assert_eq!(text.len(), 1, "{text:?}");
        let quoted = Value::from(escaped);
        assert!(text[0].contains(&format!("reason={quoted} status=503")), "{}", text[0]);
        let json = logged(LogFormat::Json, || from_outside(forged));
        assert!(json.len() == 1 && json[0].contains("\"status\":503"), "{json:?}");
    }

    #[test]
    fn text_from_outside_adds_no_fields() {
        for forged in ["gone member=admin", "gone\" member=\"admin", "member=admin", ""] {
            let text = logged(LogFormat::Text, || tracing::warn!(reason = %forged, status = 503, "refused"));
            assert!(text[0].ends_with(&format!("refused reason={} status=503", Value::from(forged))), "{}", text[0]);
        }
        let text = logged(LogFormat::Text, || tracing::warn!(reason = %"review-1", "refused"));
        assert!(text[0].ends_with("refused reason=review-1"), "{}", text[0]);
    }

    #[test]
    fn what_is_bounded_already_is_always_written() {
        let lines = logged(LogFormat::Text, || (0..100).for_each(|_| tracing::warn!(bounded = true, n = 7, "refused")));
        assert_eq!(lines.len(), 100);
        assert!(lines[0].ends_with("refused n=7"), "{}", lines[0]);
    }

    #[test]
    fn records_of_one_library_do_not_keep_those_of_another_out() {
        let of = |target: &str, from: u32| {
            (from..from + 100).for_each(|n| tracing::warn!(log.target = target, "record {n}"));
        };
        let lines =
            logged(LogFormat::Text, || ["one::part", "other::part"].into_iter().for_each(|target| of(target, 0)));
        assert_eq!(lines.len(), 80, "{lines:?}");
    }

    #[test]
    fn text_from_outside_is_cut() {
        let long = "é".repeat(59_000);
        for format in [LogFormat::Text, LogFormat::Json] {
            let lines = logged(format, || from_outside(&long));
            assert!(lines[0].chars().count() < 2 * FIELD_CHARACTERS_MAX + 200, "{}", lines[0].len());
            assert!(lines[0].contains("é…"), "it does not show that it is cut");
        }
    }

    #[test]
    fn a_line_that_is_repeated_is_left_out_and_counted() {
        let lines = logged(LogFormat::Text, || (0..1_000).for_each(|_| from_outside("/same")));
        assert_eq!(lines.len(), 1, "{lines:?}");
        let lines = logged(LogFormat::Text, || (0..1_000).for_each(|n| from_outside(&format!("/{n}"))));
        assert_eq!(lines.len(), 40, "{lines:?}");
    }

    #[test]
    fn how_many_were_left_out_is_said_although_none_follows() {
        let mut throttle = Throttle::default();
        for _ in 0..125 {
            throttle.judge(7, Level::WARN, "it failed", 7, Duration::ZERO);
        }
        let later = Duration::from_secs(60);
        assert_eq!(throttle.take_left_out(later), [("it failed".to_owned(), 124)]);
        assert_eq!(throttle.take_left_out(later), []);
    }
}
