//! A TOML file with the line of each of its values. Independent of the meaning of the keys.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use serde_json::Number;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::fault::{Fault, SourceLocation};
use crate::forms::{Content, Element, Entry, FieldFault, Reader, shown};

/// About 300,000 environments, more than one file should declare. A wrong path (a device, an image) is refused early.
const FILE_MAX_BYTES: u64 = 64 << 20;
/// The parser's message for a duplicate key.
const DUPLICATE: &str = "duplicate key";

pub(super) struct Document {
    path: Arc<Path>,
    text: String,
    line_starts: Vec<usize>,
}

impl Document {
    /// `Err` is the end of a sentence that names the file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let mut bytes = Vec::new();
        File::open(path).and_then(|file| file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes)).map_err(|error| {
            match error.kind() {
                io::ErrorKind::NotFound => "the file does not exist".to_owned(),
                io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
                io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
                _ => error.to_string(),
            }
        })?;
        if bytes.len() as u64 > FILE_MAX_BYTES {
            return Err(format!("it is larger than {} MiB", FILE_MAX_BYTES >> 20));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let sane = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + sane.iter().filter(|byte| **byte == b'\n').count();
            format!("it is not UTF-8 (line {line}); save it as UTF-8 text")
        })?;
        Ok(Self::new(path, text))
    }

    pub(super) fn new(path: &Path, text: String) -> Self {
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(newline, _)| newline + 1)).collect();
        Self { path: Arc::from(path), text, line_starts }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of the file: relative paths in the file start there.
    pub(super) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    pub(super) fn whole(&self) -> SourceLocation {
        SourceLocation::File(Arc::clone(&self.path))
    }

    pub(super) fn location<T>(&self, of: &Spanned<T>) -> SourceLocation {
        self.line(of.span().start)
    }

    /// The faults of a form, in the order of lines.
    pub(super) fn faults(&self, reader: Reader) -> Vec<Fault> {
        let fault = |FieldFault { field, at, message, first_at }: FieldFault| {
            let first = first_at.map(|at| format!("; the first is on line {}", self.line_number(at)));
            Fault::new(self.line(at), format!("{field} {message}{}", first.unwrap_or_default()))
        };
        let mut faults: Vec<Fault> = reader.into_faults().into_iter().map(fault).collect();
        faults.sort_by_key(|fault| fault.location.line());
        faults
    }

    pub(super) fn line(&self, offset: usize) -> SourceLocation {
        SourceLocation::Line(Arc::clone(&self.path), self.line_number(offset))
    }

    fn line_number(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    /// If there are syntax faults, no others are reported: after a missing bracket, keys are in the wrong table, and
    /// further faults would mislead.
    pub(super) fn parse(&self) -> Result<Spanned<DeTable<'_>>, Vec<Fault>> {
        let (table, mut errors) = DeTable::parse_recoverable(&self.text);
        if errors.is_empty() {
            return Ok(table);
        }
        // For the same reason, duplicate keys are reported only if there are no other faults.
        if errors.iter().any(|error| error.message() != DUPLICATE) {
            errors.retain(|error| error.message() != DUPLICATE);
        }
        let mut faults: Vec<Fault> = errors.iter().map(|error| self.syntax_fault(error)).collect();
        faults.sort_by_key(|fault| fault.location.line());
        // Further faults on a line mostly follow from the first.
        faults.dedup_by_key(|fault| fault.location.line());
        Err(faults)
    }

    fn syntax_fault(&self, error: &toml::de::Error) -> Fault {
        // The parser's messages never quote the text, which may contain a secret. Only keys may be shown.
        let span = error.span().unwrap_or_default();
        let key = match error.message() {
            DUPLICATE => self.text.get(span.clone()).map(|key| format!(" `{}`", shown(key))),
            _ => None,
        };
        let message = match error.message() {
            // The parser's message for `filter = info`.
            "invalid float, expected `inf`" => "string values must be quoted",
            message => message,
        };
        let line = self.line_number(span.start);
        let column =
            self.text.get(self.line_starts[line - 1]..span.start).map_or(1, |before| before.chars().count() + 1);
        Fault::new(
            SourceLocation::Column(Arc::clone(&self.path), line, column),
            format!("not TOML: {message}{}", key.unwrap_or_default()),
        )
    }
}

/// The type of a value, for faults.
pub(super) fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// The number if it is within its bounds; otherwise a text for the actual value, which completes "got".
pub(super) fn whole_number(value: &DeValue<'_>, bounds: RangeInclusive<u32>) -> Result<u32, String> {
    let DeValue::Integer(integer) = value else {
        return Err(type_of(value).to_owned());
    };
    i128::from_str_radix(integer.as_str(), integer.radix())
        .ok()
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| bounds.contains(number))
        .ok_or_else(|| integer.to_string())
}

pub(super) fn element<'a>(table: &'a Spanned<DeTable<'a>>) -> Element<'a> {
    Element { at: 0, content: object(table.get_ref()) }
}

fn object<'a>(table: &'a DeTable<'a>) -> Content<'a> {
    let entry = |(name, value): (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>)| Entry {
        name: Cow::Borrowed(name.get_ref()),
        name_at: name.span().start,
        element: element_of(value),
    };
    Content::Object(table.into_iter().map(entry).collect())
}

fn element_of<'a>(value: &'a Spanned<DeValue<'a>>) -> Element<'a> {
    let content = match value.get_ref() {
        DeValue::String(text) => Content::Text(Cow::Borrowed(text)),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map_or(Content::Other("an integer of more than 64 bits"), |integer| Content::Number(integer.into())),
        DeValue::Float(float) => number(float.as_str()).map_or(Content::Other("not a finite number"), Content::Number),
        DeValue::Boolean(value) => Content::Boolean(*value),
        DeValue::Datetime(_) => Content::Other("a date or time"),
        DeValue::Array(array) => Content::Array(array.iter().map(element_of).collect()),
        DeValue::Table(table) => object(table),
    };
    Element { at: value.span().start, content }
}

/// Numbers with a fraction of zero become integers.
fn number(text: &str) -> Option<Number> {
    let float: f64 = text.parse().ok()?;
    let whole = float as i64;
    if whole as f64 == float { Some(whole.into()) } else { Number::from_f64(float) }
}
