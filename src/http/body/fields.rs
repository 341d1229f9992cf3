//! The fields of a body, taken one by one.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::json::Json;
use crate::domain::Malformed;
use crate::http::problem::{FieldError, Problem};

/// The fields of an object, taken one by one; what is wrong is collected, and what nobody took is unknown.
pub struct Fields {
    fields: Vec<(String, Json)>,
    errors: Vec<FieldError>,
}

impl Fields {
    pub(super) fn new(fields: Vec<(String, Json)>) -> Self {
        Self { fields, errors: Vec::new() }
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Json> {
        let place = self.fields.iter().position(|(field, _)| field == name)?;
        Some(self.fields.swap_remove(place).1)
    }

    fn leave_out_null(&mut self, name: &str) {
        self.fields.retain(|(field, value)| field != name || *value != Json::Null);
    }

    pub fn wrong(&mut self, field: &str, message: impl Into<String>) {
        self.errors.push(FieldError { field: field.to_owned(), message: message.into() });
    }

    /// A text that may be left out or null.
    pub fn nullable_text<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, Malformed>) -> Option<T> {
        self.leave_out_null(name);
        self.text(name, parse)
    }

    /// A text that may be left out.
    pub fn text<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, Malformed>) -> Option<T> {
        match self.take(name)? {
            Json::Text(text) => match parse(&text) {
                Ok(value) => Some(value),
                Err(malformed) => {
                    self.wrong(name, malformed.to_string());
                    None
                }
            },
            other => {
                self.wrong(name, format!("is a string, not {}", other.kind()));
                None
            }
        }
    }

    /// A text that must be there.
    pub fn required_text<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, Malformed>) -> Option<T> {
        self.leave_out_null(name);
        if !self.has(name) {
            self.wrong(name, "is required");
            return None;
        }
        self.text(name, parse)
    }

    pub fn boolean(&mut self, name: &str) -> Option<bool> {
        match self.take(name)? {
            Json::Bool(value) => Some(value),
            other => {
                self.wrong(name, format!("is a boolean, not {}", other.kind()));
                None
            }
        }
    }

    /// A boolean that may be left out or null.
    pub fn nullable_boolean(&mut self, name: &str) -> Option<bool> {
        self.leave_out_null(name);
        self.boolean(name)
    }

    /// A whole number that may be left out or null.
    pub fn nullable_integer(&mut self, name: &str, range: RangeInclusive<i64>) -> Option<i64> {
        self.leave_out_null(name);
        self.integer(name, range)
    }

    /// A whole number that may be left out.
    pub fn integer(&mut self, name: &str, range: RangeInclusive<i64>) -> Option<i64> {
        let value = self.take(name)?;
        let whole = match &value {
            Json::Number(number) => whole(number),
            Json::Null | Json::Bool(_) | Json::Text(_) | Json::Array(_) | Json::Object(_) => None,
        };
        let fits = whole.filter(|whole| range.contains(whole));
        if fits.is_none() {
            let got = match &value {
                Json::Number(number) => number.to_string(),
                other => other.kind().to_owned(),
            };
            self.wrong(name, format!("is a whole number from {} to {}, not {got}", range.start(), range.end()));
        }
        fits
    }

    /// An object that may be left out or null.
    pub fn nullable_object<T>(&mut self, name: &str, read: impl FnOnce(&mut Fields) -> T) -> Option<T> {
        self.leave_out_null(name);
        self.object(name, read)
    }

    /// An object that may be left out. `read` takes its fields; what is wrong with them, or unknown, is reported as
    /// `name.field`.
    pub fn object<T>(&mut self, name: &str, read: impl FnOnce(&mut Fields) -> T) -> Option<T> {
        match self.take(name)? {
            Json::Object(inner) => Some(self.within(name, inner, read)),
            other => {
                self.wrong(name, format!("is an object, not {}", other.kind()));
                None
            }
        }
    }

    pub(super) fn within<T>(
        &mut self,
        name: &str,
        inner: Vec<(String, Json)>,
        read: impl FnOnce(&mut Fields) -> T,
    ) -> T {
        let mut inner = Self::new(inner);
        let value = read(&mut inner);
        for error in inner.faults() {
            self.wrong(&format!("{name}.{}", error.field), error.message);
        }
        value
    }

    /// Whether there is a field of this name that nobody has taken yet.
    pub fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| field == name)
    }

    pub(super) fn has_list(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, value)| field == name && matches!(value, Json::Array(_)))
    }

    /// An object of texts, each entry under the name `name.key`.
    pub fn texts<K: Ord, V>(
        &mut self,
        name: &str,
        entries_max: usize,
        parse_key: impl Fn(&str) -> Result<K, Malformed>,
        parse_value: impl Fn(&str) -> Result<V, Malformed>,
    ) -> Option<BTreeMap<K, V>> {
        let entries = match self.take(name)? {
            Json::Object(entries) => entries,
            other => {
                self.wrong(name, format!("is an object of strings, not {}", other.kind()));
                return None;
            }
        };
        if entries.len() > entries_max {
            self.wrong(name, format!("has at most {entries_max} entries"));
        }
        let mut texts = BTreeMap::new();
        for (key, value) in entries {
            let field = format!("{name}.{key}");
            let parsed_key =
                parse_key(&key).map_err(|malformed| self.wrong(&field, format!("has a key that {malformed}")));
            let parsed_value = match &value {
                Json::Text(text) => parse_value(text).map_err(|malformed| self.wrong(&field, malformed.to_string())),
                other => {
                    self.wrong(&field, format!("is a string, not {}", other.kind()));
                    Err(())
                }
            };
            if let (Ok(key), Ok(value)) = (parsed_key, parsed_value) {
                texts.insert(key, value);
            }
        }
        Some(texts)
    }

    /// If the object is nothing but this one object, its fields instead.
    pub fn unwrap_only(self, name: &str) -> Self {
        match <[_; 1]>::try_from(self.fields) {
            Ok([(field, Json::Object(inner))]) if field == name => Self::new(inner),
            Ok(other) => Self { fields: other.into(), errors: self.errors },
            Err(fields) => Self { fields, errors: self.errors },
        }
    }

    /// Whether something that was taken is wrong.
    pub fn has_faults(&self) -> bool {
        !self.errors.is_empty()
    }

    /// All faults at once, those nobody asked for among them.
    pub fn finish(self) -> Result<(), Problem> {
        let faults = self.faults();
        if faults.is_empty() { Ok(()) } else { Err(Problem::invalid_request(faults)) }
    }

    pub(super) fn faults(mut self) -> Vec<FieldError> {
        for (field, _) in std::mem::take(&mut self.fields) {
            self.wrong(&field, "is unknown here");
        }
        self.errors
    }
}

/// A number without a fraction, however it is written: `5`, `5.0` and `5e0` are one number in JSON.
pub(super) fn whole(number: &serde_json::Number) -> Option<i64> {
    /// Up to here every whole number has a floating-point number of its own.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let rounded = || number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT_MAX);
    number.as_i64().or_else(|| rounded().map(|float| float as i64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::domain::CommitId;

    fn fields(text: &str) -> Fields {
        match serde_json::from_str(text).unwrap() {
            Json::Object(fields) => Fields::new(fields),
            other => panic!("{other:?} is no object"),
        }
    }

    /// What is reported, as `field message`, in the order of the fields.
    fn faults(fields: Fields) -> Vec<String> {
        let mut faults: Vec<_> =
            fields.faults().into_iter().map(|error| format!("{} {}", error.field, error.message)).collect();
        faults.sort();
        faults
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let mut fields = fields(r#"{"commitId": "-x", "context": 7, "colour": "red"}"#);
        assert!(fields.text("commitId", CommitId::parse).is_none());
        assert!(fields.text("context", CommitId::parse).is_none());
        let problem = fields.finish().unwrap_err().to_string();
        for field in ["commitId", "context", "colour"] {
            assert!(problem.contains(field), "{problem}");
        }
    }

    #[test]
    fn what_is_required_is_neither_left_out_nor_null() {
        for text in ["{}", r#"{"commitId": null}"#] {
            let mut fields = fields(text);
            assert!(fields.required_text("commitId", CommitId::parse).is_none());
            assert_eq!(faults(fields), ["commitId is required"]);
        }
    }

    #[test]
    fn a_whole_number_is_taken_within_its_range() {
        for (text, number) in [("1", 1), ("300", 300), ("-0", 0), ("60.0", 60), ("6e1", 60), ("-100", -100)] {
            let mut fields = fields(&format!(r#"{{"n": {text}}}"#));
            assert_eq!(fields.integer("n", -100..=300), Some(number), "{text}");
            assert!(fields.finish().is_ok());
        }
        let mut widest = fields(&format!(r#"{{"least": {}, "most": {}}}"#, i64::MIN, i64::MAX));
        assert_eq!(widest.integer("least", i64::MIN..=i64::MAX), Some(i64::MIN));
        assert_eq!(widest.integer("most", i64::MIN..=i64::MAX), Some(i64::MAX));
    }

    #[test]
    fn anything_else_is_told_what_it_should_be() {
        for (text, got) in [
            ("0", "0"),
            ("301", "301"),
            ("1.5", "1.5"),
            ("18446744073709551615", "18446744073709551615"),
            ("1e300", "1e+300"),
            ("\"5\"", "a string"),
            ("true", "a boolean"),
            ("null", "null"),
            ("[5]", "an array"),
            ("{}", "an object"),
        ] {
            let mut fields = fields(&format!(r#"{{"n": {text}}}"#));
            assert_eq!(fields.integer("n", 1..=300), None);
            assert_eq!(faults(fields), [format!("n is a whole number from 1 to 300, not {got}")]);
        }
    }

    #[test]
    fn null_counts_as_left_out_where_it_may_be_null() {
        for text in ["{}", r#"{"n": null, "o": null, "t": null}"#] {
            let mut fields = fields(text);
            assert_eq!(fields.nullable_integer("n", 1..=300), None);
            assert_eq!(fields.nullable_object("o", |_| ()), None);
            assert!(fields.nullable_text("t", CommitId::parse).is_none());
            assert!(fields.finish().is_ok(), "{text}");
        }
    }

    #[test]
    fn an_object_within_is_read_and_its_faults_are_named_after_it() {
        let read = |text: &str| {
            let mut fields = fields(text);
            let commit = fields.object("onRelease", |inner| inner.required_text("commitId", CommitId::parse));
            (commit.map(|commit| commit.map(|commit| commit.to_string())), faults(fields))
        };
        assert_eq!(read("{}"), (None, vec![]));
        assert_eq!(read(r#"{"onRelease": {"commitId": "c0ffee1"}}"#), (Some(Some("c0ffee1".to_owned())), vec![]));
        let (commit, told) = read(r#"{"onRelease": {"commitId": 7, "colour": "red"}, "colour": "red"}"#);
        assert_eq!(commit, Some(None));
        assert_eq!(
            told,
            [
                "colour is unknown here",
                "onRelease.colour is unknown here",
                "onRelease.commitId is a string, not a number"
            ]
        );
        assert_eq!(read(r#"{"onRelease": {}}"#).1, ["onRelease.commitId is required"]);
        assert_eq!(read(r#"{"onRelease": "x"}"#).1, ["onRelease is an object, not a string"]);
        assert_eq!(read(r#"{"onRelease": null}"#).1, ["onRelease is an object, not null"]);
    }
}
