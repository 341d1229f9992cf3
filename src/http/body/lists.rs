//! Fields that are lists. What is wrong with an entry is reported under its place: `stages[1].steps[0].run[2]`.

use std::ops::RangeInclusive;

use super::fields::{Fields, whole};
use super::json::Json;
use crate::domain::Malformed;

impl Fields {
    /// A list of objects that may be left out. `read` takes the fields of each, and is told its place.
    pub fn objects<T>(
        &mut self,
        name: &str,
        count: RangeInclusive<usize>,
        mut read: impl FnMut(&mut Fields, usize) -> T,
    ) -> Option<Vec<T>> {
        let entries = self.entries(name, "objects", count)?;
        let mut values = Vec::with_capacity(entries.len());
        for (place, entry) in entries.into_iter().enumerate() {
            let field = format!("{name}[{place}]");
            match entry {
                Json::Object(inner) => values.push(self.within(&field, inner, |inner| read(inner, place))),
                other => self.wrong(&field, format!("is an object, not {}", other.kind())),
            }
        }
        Some(values)
    }

    /// A list of texts that may be left out. `parse` is told the place of each.
    pub fn list<T>(
        &mut self,
        name: &str,
        count: RangeInclusive<usize>,
        parse: impl Fn(usize, &str) -> Result<T, Malformed>,
    ) -> Option<Vec<T>> {
        let entries = self.entries(name, "strings", count)?;
        let mut values = Vec::with_capacity(entries.len());
        for (place, entry) in entries.into_iter().enumerate() {
            let field = format!("{name}[{place}]");
            match entry {
                Json::Text(text) => match parse(place, &text) {
                    Ok(value) => values.push(value),
                    Err(malformed) => self.wrong(&field, malformed.to_string()),
                },
                other => self.wrong(&field, format!("is a string, not {}", other.kind())),
            }
        }
        Some(values)
    }

    /// A whole number, or a list of them, that may be left out.
    pub fn integers(&mut self, name: &str, count_max: usize, range: RangeInclusive<i64>) -> Option<Vec<i64>> {
        if !self.has_list(name) {
            return self.integer(name, range).map(|number| vec![number]);
        }
        let entries = self.entries(name, "whole numbers", 0..=count_max)?;
        let mut numbers = Vec::with_capacity(entries.len());
        for (place, entry) in entries.into_iter().enumerate() {
            let number = match &entry {
                Json::Number(number) => whole(number).filter(|number| range.contains(number)),
                Json::Null | Json::Bool(_) | Json::Text(_) | Json::Array(_) | Json::Object(_) => None,
            };
            match number {
                Some(number) => numbers.push(number),
                None => self.wrong(
                    &format!("{name}[{place}]"),
                    format!("is a whole number from {} to {}", range.start(), range.end()),
                ),
            }
        }
        Some(numbers)
    }

    /// The entries of a list, as many as may be read.
    fn entries(&mut self, name: &str, of: &str, count: RangeInclusive<usize>) -> Option<Vec<Json>> {
        let mut entries = match self.take(name)? {
            Json::Array(entries) => entries,
            other => {
                self.wrong(name, format!("is a list of {of}, not {}", other.kind()));
                return None;
            }
        };
        if entries.len() > *count.end() {
            self.wrong(name, format!("has at most {} entries", count.end()));
            entries.truncate(*count.end());
        } else if entries.len() < *count.start() {
            self.wrong(name, format!("has at least {}", counted(*count.start())));
        }
        Some(entries)
    }
}

fn counted(entries: usize) -> String {
    if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn fields(text: &str) -> Fields {
        match serde_json::from_str(text).unwrap() {
            Json::Object(fields) => Fields::new(fields),
            other => panic!("{other:?} is no object"),
        }
    }

    fn faults(fields: Fields) -> Vec<String> {
        fields.faults().into_iter().map(|error| format!("{} {}", error.field, error.message)).collect()
    }

    #[test]
    fn entries_of_a_list_are_reported_under_their_places() {
        let mut given = fields(r#"{"a": [{"b": ["x", 1, ""]}, 7, {"c": 1}], "d": {}}"#);
        let word = |_, text: &str| if text.is_empty() { Err(Malformed("is a word")) } else { Ok(text.to_owned()) };
        let read = given.objects("a", 1..=3, |inner, place| (place, inner.list("b", 0..=3, word)));
        assert_eq!(read, Some(vec![(0, Some(vec!["x".to_owned()])), (2, None)]));
        assert_eq!(
            faults(given),
            [
                "a[0].b[1] is a string, not a number",
                "a[0].b[2] is a word",
                "a[1] is an object, not a number",
                "a[2].c is unknown here",
                "d is unknown here",
            ]
        );
    }

    #[test]
    fn a_list_has_as_many_entries_as_it_may() {
        let any = |_, text: &str| Ok(text.to_owned());
        for (text, told) in [
            (r#"{"a": []}"#, "a has at least 1 entry"),
            (r#"{"a": ["1", "2", "3", 4]}"#, "a has at most 2 entries"),
            (r#"{"a": "1"}"#, "a is a list of strings, not a string"),
            (r#"{"a": null}"#, "a is a list of strings, not null"),
        ] {
            let mut given = fields(text);
            given.list("a", 1..=2, any);
            assert_eq!(faults(given), [told], "{text}");
        }
        let mut left_out = fields("{}");
        assert_eq!(left_out.list("a", 1..=2, any), None);
        assert!(left_out.finish().is_ok());
    }

    #[test]
    fn one_number_is_a_list_of_one() {
        let read = |text: &str| {
            let mut given = fields(text);
            (given.integers("n", 2, 100..=599), faults(given))
        };
        assert_eq!(read(r#"{"n": 204}"#), (Some(vec![204]), vec![]));
        assert_eq!(read(r#"{"n": [200, 2.04e2]}"#), (Some(vec![200, 204]), vec![]));
        assert_eq!(read("{}"), (None, vec![]));
        assert_eq!(read(r#"{"n": 99}"#).1, ["n is a whole number from 100 to 599, not 99"]);
        assert_eq!(
            read(r#"{"n": [200, "200"]}"#),
            (Some(vec![200]), vec!["n[1] is a whole number from 100 to 599".to_owned()])
        );
        assert_eq!(read(r#"{"n": [200, 201, 202]}"#).1, ["n has at most 2 entries"]);
    }
}
