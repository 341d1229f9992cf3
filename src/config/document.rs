//! A TOML file as it was read, with a place for everything in it. Knows nothing of what the keys mean.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{Fault, Place, nearest, shown};

/// Some 300,000 environments: more than one file should hold, and a wrong path (a device, an image) is soon given up.
const FILE_MAX_BYTES: u64 = 64 << 20;
/// The parser's message for it.
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
                io::ErrorKind::NotFound => "there is no such file".to_owned(),
                io::ErrorKind::PermissionDenied => "this user may not read it".to_owned(),
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

    /// Where the file stands, for the relative paths in it.
    pub(super) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    pub(super) fn whole(&self) -> Place {
        Place::File(Arc::clone(&self.path))
    }

    pub(super) fn place<T>(&self, of: &Spanned<T>) -> Place {
        self.line(of.span().start)
    }

    fn line(&self, offset: usize) -> Place {
        Place::Line(Arc::clone(&self.path), self.line_number(offset))
    }

    fn line_number(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    /// The syntax faults are all there is to say of a broken file: after a missing bracket, keys stand in the wrong
    /// table, and further faults would only mislead.
    pub(super) fn parse(&self) -> Result<Spanned<DeTable<'_>>, Vec<Fault>> {
        let (table, mut errors) = DeTable::parse_recoverable(&self.text);
        if errors.is_empty() {
            return Ok(table);
        }
        // For the same reason, keys that seem to be there twice are believed only where all else is well.
        if errors.iter().any(|error| error.message() != DUPLICATE) {
            errors.retain(|error| error.message() != DUPLICATE);
        }
        let mut faults: Vec<Fault> = errors.iter().map(|error| self.syntax_fault(error)).collect();
        faults.sort_by_key(|fault| fault.place.line());
        // What follows on the same line is mostly the echo of the first.
        faults.dedup_by_key(|fault| fault.place.line());
        Err(faults)
    }

    fn syntax_fault(&self, error: &toml::de::Error) -> Fault {
        // Messages of the parser never quote the text, which may hold a secret. Only a key may be shown.
        let span = error.span().unwrap_or_default();
        let key = match error.message() {
            DUPLICATE => self.text.get(span.clone()).map(|key| format!(" `{}`", shown(key))),
            _ => None,
        };
        let message = match error.message() {
            // What the parser makes of `filter = info`.
            "invalid float, expected `inf`" => "string values must be quoted",
            message => message,
        };
        let line = self.line_number(span.start);
        let column =
            self.text.get(self.line_starts[line - 1]..span.start).map_or(1, |before| before.chars().count() + 1);
        Fault::new(
            Place::Column(Arc::clone(&self.path), line, column),
            format!("not TOML: {message}{}", key.unwrap_or_default()),
        )
    }
}

/// What a value is, for saying that it should be something else.
pub(super) fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// The number within its bounds, or what stands there instead, which completes "not".
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

/// One table of a document, known by the name that its keys have in faults.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    pub(super) document: &'a Document,
    name: &'static str,
    pub(super) table: &'a DeTable<'a>,
    offset: usize,
}

impl<'a> Section<'a> {
    /// The whole document; its keys are called by their own name.
    pub(super) fn root(document: &'a Document, table: &'a Spanned<DeTable<'a>>) -> Self {
        Self { document, name: "", table: table.get_ref(), offset: 0 }
    }

    pub(super) fn place(&self) -> Place {
        self.document.line(self.offset)
    }

    /// Where `key` stands, if it does.
    pub(super) fn place_of(&self, key: &str) -> Place {
        self.table.get(key).map_or_else(|| self.place(), |value| self.document.place(value))
    }

    pub(super) fn refuse_keys_other_than(&self, known: &[&str], faults: &mut Vec<Fault>) {
        for key in self.table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let meant = nearest(key.get_ref(), known.iter().copied());
            let allowed = format!("allowed here: {}", known.join(", "));
            let name = self.full_name(key.get_ref());
            faults.push(Fault::unknown(self.document.place(key), "key", &name, meant, &allowed));
        }
    }

    /// The value of `key` made by `parse`, whose error says what the value "is" to be. Absent and wrong are both
    /// `None`, but wrong leaves a fault.
    pub(super) fn optional<T, E: Display>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
        faults: &mut Vec<Fault>,
    ) -> Option<T> {
        let value = self.table.get(key)?;
        let text = self.text(key, value, faults)?;
        parse(text).map_err(|error| faults.push(self.malformed(key, value, &error))).ok()
    }

    pub(super) fn required<T, E: Display>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
        faults: &mut Vec<Fault>,
    ) -> Option<T> {
        if !self.table.contains_key(key) {
            faults.push(Fault::new(self.place(), format!("{} is missing", self.full_name(key))));
        }
        self.optional(key, parse, faults)
    }

    pub(super) fn boolean(&self, key: &str, faults: &mut Vec<Fault>) -> Option<bool> {
        let value = self.table.get(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            faults.push(self.wrong_type(key, value, "true or false"));
        }
        flag
    }

    pub(super) fn number(&self, key: &str, bounds: RangeInclusive<u32>, faults: &mut Vec<Fault>) -> Option<u32> {
        let value = self.table.get(key)?;
        let allowed = format!("a whole number from {} to {}", bounds.start(), bounds.end());
        let not = |got: String| self.must_be(key, value, &allowed, &got);
        whole_number(value.get_ref(), bounds).map_err(|got| faults.push(not(got))).ok()
    }

    /// The entries of the table `key`, `max` of them at most, such as `labels = { size = "small" }`.
    pub(super) fn entries<K, V, KE: Display, VE: Display>(
        &self,
        key: &str,
        parse_key: fn(&str) -> Result<K, KE>,
        parse_value: fn(&str) -> Result<V, VE>,
        max: usize,
        faults: &mut Vec<Fault>,
    ) -> Vec<(K, V)> {
        let Some(value) = self.table.get(key) else {
            return Vec::new();
        };
        let Some(table) = value.get_ref().as_table() else {
            faults.push(self.wrong_type(key, value, "a table of strings"));
            return Vec::new();
        };
        if table.len() > max {
            let (name, count) = (self.full_name(key), table.len());
            let message = format!("{name} has {count} entries; at most {max} are allowed");
            faults.push(Fault::new(self.document.place(value), message));
        }
        let mut entries = Vec::with_capacity(table.len());
        for (name, value) in table {
            let full = format!("{key}.{}", shown(name.get_ref()));
            let parsed_name = parse_key(name.get_ref())
                .map_err(|error| faults.push(self.malformed(&format!("{full}: the name"), name, &error)));
            let parsed_value = self.text(&full, value, faults).and_then(|text| {
                parse_value(text).map_err(|error| faults.push(self.malformed(&full, value, &error))).ok()
            });
            entries.extend(parsed_name.ok().zip(parsed_value));
        }
        entries
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The strings of the array `key`, as many as `count` allows. `parse` is told the place of each.
    pub(super) fn strings<T, E: Display>(
        &self,
        key: &str,
        count: RangeInclusive<usize>,
        parse: impl Fn(usize, &str) -> Result<T, E>,
        faults: &mut Vec<Fault>,
    ) -> Option<Vec<T>> {
        let value = self.table.get(key)?;
        let Some(array) = value.get_ref().as_array() else {
            faults.push(self.wrong_type(key, value, "an array of strings"));
            return None;
        };
        if !count.contains(&array.len()) {
            let allowed = format!("an array of {} to {} strings", count.start(), count.end());
            faults.push(self.must_be(key, value, &allowed, &array.len().to_string()));
        }
        let mut strings = Vec::with_capacity(array.len());
        for (place, entry) in array.iter().enumerate().take(*count.end()) {
            let name = format!("{key}[{place}]");
            let Some(text) = self.text(&name, entry, faults) else { continue };
            match parse(place, text) {
                Ok(value) => strings.push(value),
                Err(error) => faults.push(self.malformed(&name, entry, &error)),
            }
        }
        Some(strings)
    }

    /// The whole number `key`, or the array of at most `max` of them.
    pub(super) fn numbers(
        &self,
        key: &str,
        max: usize,
        bounds: RangeInclusive<u32>,
        faults: &mut Vec<Fault>,
    ) -> Option<Vec<u32>> {
        let value = self.table.get(key)?;
        let Some(array) = value.get_ref().as_array() else {
            return self.number(key, bounds, faults).map(|number| vec![number]);
        };
        if array.len() > max {
            let (name, count) = (self.full_name(key), array.len());
            let message = format!("{name} has {count} entries; at most {max} are allowed");
            faults.push(Fault::new(self.document.place(value), message));
        }
        let allowed = format!("a whole number from {} to {}", bounds.start(), bounds.end());
        let mut numbers = Vec::with_capacity(array.len());
        for (place, entry) in array.iter().enumerate().take(max) {
            match whole_number(entry.get_ref(), bounds.clone()) {
                Ok(number) => numbers.push(number),
                Err(got) => faults.push(self.must_be(&format!("{key}[{place}]"), entry, &allowed, &got)),
            }
        }
        Some(numbers)
    }

    /// The table `key`.
    pub(super) fn section(&self, key: &'static str, faults: &mut Vec<Fault>) -> Option<Section<'a>> {
        let Some(value) = self.table.get(key) else {
            faults.push(Fault::new(self.document.whole(), format!("[{key}] is missing")));
            return None;
        };
        let table = value.get_ref().as_table();
        if table.is_none() {
            faults.push(self.wrong_type(key, value, &format!("a table: [{key}]")));
        }
        Some(self.inner(key, table?, value))
    }

    /// The table `key`, if it is there. `name` is what it is called in faults, `form` how it is written.
    pub(super) fn optional_section(
        &self,
        key: &str,
        name: &'static str,
        form: &str,
        faults: &mut Vec<Fault>,
    ) -> Option<Section<'a>> {
        let value = self.table.get(key)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            faults.push(self.wrong_type(key, value, &format!("a table: {form}")));
        }
        Some(self.inner(name, table?, value))
    }

    /// The tables under `key`, none if it is absent. `name` is what they are called in faults.
    pub(super) fn sections(&self, key: &str, name: &'static str, faults: &mut Vec<Fault>) -> Vec<Section<'a>> {
        let Some(value) = self.table.get(key) else {
            return Vec::new();
        };
        let allowed = format!("tables: [[{name}]]");
        let Some(array) = value.get_ref().as_array() else {
            faults.push(self.wrong_type(key, value, &allowed));
            return Vec::new();
        };
        let mut sections = Vec::with_capacity(array.len());
        for element in array.iter() {
            match element.get_ref().as_table() {
                Some(table) => sections.push(self.inner(name, table, element)),
                None => faults.push(self.wrong_type(key, element, &allowed)),
            }
        }
        sections
    }

    pub(super) fn inner<T>(&self, name: &'static str, table: &'a DeTable<'a>, at: &Spanned<T>) -> Section<'a> {
        Section { document: self.document, name, table, offset: at.span().start }
    }

    pub(super) fn full_name(&self, key: &str) -> String {
        match self.name {
            "" => key.to_owned(),
            name => format!("{name}.{key}"),
        }
    }

    fn text<'v>(&self, key: &str, value: &'v Spanned<DeValue<'_>>, faults: &mut Vec<Fault>) -> Option<&'v str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            faults.push(self.wrong_type(key, value, "a string"));
        }
        text
    }

    pub(super) fn wrong_type(&self, key: &str, value: &Spanned<DeValue<'_>>, allowed: &str) -> Fault {
        self.must_be(key, value, allowed, type_of(value.get_ref()))
    }

    fn must_be(&self, key: &str, value: &Spanned<DeValue<'_>>, allowed: &str, got: &str) -> Fault {
        Fault::must_be(self.document.place(value), &self.full_name(key), allowed, Some(got))
    }

    /// `error` is a sentence without its subject, as the domain's `Malformed` is.
    pub(super) fn malformed<T>(&self, key: &str, at: &Spanned<T>, error: &impl Display) -> Fault {
        let error = error.to_string();
        let rule = error.strip_prefix("is ").map_or_else(|| error.clone(), |allowed| format!("must be {allowed}"));
        Fault::new(self.document.place(at), format!("{} {rule}", self.full_name(key)))
    }
}
