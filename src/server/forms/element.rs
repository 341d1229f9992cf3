//! A request body or a file as a tree. JSON and TOML both become this tree, so that forms read both in the same way.
//! Also the spelling of field names, and how names are shown.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use smallvec::SmallVec;

use domain::nearest::NAME_MAX;

/// More fields than most bodies have.
const USUAL_FIELDS: usize = 8;

/// One value of the tree.
#[derive(Debug)]
pub struct Element<'a> {
    /// The start of the value in its file, in bytes; 0 in a request body.
    pub at: usize,
    pub content: Content<'a>,
}

#[derive(Debug)]
pub enum Content<'a> {
    Null,
    Boolean(bool),
    Number(Number),
    Text(Cow<'a, str>),
    Array(Vec<Element<'a>>),
    Object(Vec<Entry<'a>>),
    /// A value that no form accepts, by its name in fault messages.
    Other(&'static str),
}

#[derive(Debug)]
pub struct Entry<'a> {
    pub name: Cow<'a, str>,
    /// The start of the name in its file.
    pub name_at: usize,
    pub element: Element<'a>,
}

/// How a source spells field names; forms define them in snake_case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// JSON: camelCase.
    Camel,
    /// TOML: snake_case.
    Snake,
}

impl Spelling {
    pub(super) fn matches(self, written: &str, name: &str) -> bool {
        match self {
            Spelling::Camel => is_camel_case_of(written, name),
            Spelling::Snake => written == name,
        }
    }

    pub(super) fn spell(self, name: &str) -> String {
        match self {
            Spelling::Camel => camel_case(name),
            Spelling::Snake => name.to_owned(),
        }
    }

    pub(super) fn object(self) -> &'static str {
        match self {
            Spelling::Camel => "an object",
            Spelling::Snake => "a table",
        }
    }
}

/// An object whose field names are those of a form.
#[derive(Debug, Clone, Copy)]
pub struct Object<'e> {
    pub at: usize,
    pub(super) entries: &'e [Entry<'e>],
    pub(super) spelling: Spelling,
}

impl<'e> Object<'e> {
    pub fn get(&self, name: &str) -> Option<&'e Element<'e>> {
        let entry = self.entries.iter().find(|entry| self.spelling.matches(&entry.name, name));
        entry.map(|entry| &entry.element)
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn text(&self, name: &str) -> Option<&'e str> {
        let Content::Text(text) = &self.get(name)?.content else { return None };
        Some(text)
    }

    /// The start of the field, or of the object if the field is missing.
    pub fn at_of(&self, name: &str) -> usize {
        self.get(name).map_or(self.at, |element| element.at)
    }
}

impl<'a> Element<'a> {
    pub fn empty_object() -> Self {
        Self { at: 0, content: Content::Object(Vec::new()) }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.content, Content::Null)
    }

    /// If the element is an object whose only field is an object called `name`, returns that inner object.
    pub fn unwrap_only(mut self, name: &str) -> Self {
        if let Content::Object(entries) = &mut self.content
            && let [entry] = &**entries
            && entry.name == name
            && let Content::Object(_) = entry.element.content
            && let Some(entry) = entries.pop()
        {
            return entry.element;
        }
        self
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Element<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde_json limits the depth.
        let content = deserializer.deserialize_any(JsonVisitor)?;
        Ok(Self { at: 0, content })
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Content::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Content::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Content::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Content::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(value).map_or(Content::Null, Content::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Content::Text(Cow::Borrowed(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = sequence.next_element()? {
            elements.push(element);
        }
        Ok(Content::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            entries.push(Entry { name, name_at: 0, element: map.next_value()? });
        }
        refuse_duplicates(&entries)?;
        Ok(Content::Object(entries))
    }
}

fn refuse_duplicates<E: de::Error>(entries: &[Entry<'_>]) -> Result<(), E> {
    let mut names: SmallVec<[&str; USUAL_FIELDS]> = entries.iter().map(|entry| &*entry.name).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(E::custom(format_args!("duplicate key `{}` in an object", twice[0]))),
        None => Ok(()),
    }
}

/// The name of a field, borrowed if it contains no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Content::Text(name) = deserializer.deserialize_str(JsonVisitor)? else {
            return Err(de::Error::custom("a key must be a string"));
        };
        Ok(Self(name))
    }
}

pub(super) fn camel_case(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut words = name.split('_');
    camel.push_str(words.next().unwrap_or_default());
    for word in words {
        let mut characters = word.chars();
        camel.extend(characters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(characters.as_str());
    }
    camel
}

/// Whether `written` is `name` in camelCase. Does not allocate: every field of every request is compared.
fn is_camel_case_of(written: &str, name: &str) -> bool {
    let mut written = written.bytes();
    let mut name = name.bytes();
    while let Some(byte) = name.next() {
        let expected = match byte {
            b'_' => name.next().map(|first| first.to_ascii_uppercase()),
            byte => Some(byte),
        };
        if written.next() != expected {
            return false;
        }
    }
    written.next().is_none()
}

/// The name of a raw identifier without its prefix: `type` for `r#type`.
pub const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// A name from outside, made safe for one line on a terminal. Names longer than the form's are cut.
pub fn shown(name: &str) -> String {
    let cut: String = name.chars().take(NAME_MAX).collect();
    let dots = if cut.len() < name.len() { "…" } else { "" };
    format!("{}{dots}", cut.escape_debug())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse(text: &str) -> Result<Element<'_>, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn a_duplicate_key_is_refused_at_any_depth() {
        assert!(parse(r#"{"a": 1, "b": {"a": 2}}"#).is_ok());
        for twice in [r#"{"a": 1, "a": 1}"#, r#"{"x": [{"a": 1, "a": 2}]}"#, r#"{"a": 1, "\u0061": 1}"#] {
            assert!(parse(twice).unwrap_err().to_string().contains("duplicate key `a`"), "{twice}");
        }
    }

    #[test]
    fn absurd_depth_is_refused_before_it_hurts() {
        let deep = "[".repeat(30_000);
        assert!(parse(&deep).unwrap_err().to_string().contains("recursion limit"));
    }

    #[test]
    fn only_an_object_that_is_alone_is_unwrapped() {
        for (text, fields) in [
            (r#"{"configuration": {"a": 1}}"#, vec!["a"]),
            (r#"{"configuration": 1}"#, vec!["configuration"]),
            (r#"{"configuration": {}, "a": 1}"#, vec!["configuration", "a"]),
        ] {
            let Content::Object(entries) = parse(text).unwrap().unwrap_only("configuration").content else { panic!() };
            assert_eq!(entries.iter().map(|entry| &*entry.name).collect::<Vec<_>>(), fields, "{text}");
        }
    }

    #[test]
    fn a_name_in_json_is_the_camel_case_of_the_field() {
        for (name, camel) in [("name", "name"), ("ttl_seconds", "ttlSeconds"), ("max_a_b", "maxAB")] {
            assert_eq!(camel_case(name), camel);
            assert!(is_camel_case_of(camel, name));
        }
        for written in ["ttl_seconds", "ttlseconds", "ttlSecond", "ttlSecondsX", "", "TtlSeconds"] {
            assert!(!is_camel_case_of(written, "ttl_seconds"), "{written}");
        }
        assert_eq!((plain("r#type"), plain("run")), ("type", "run"));
    }

    #[test]
    fn a_name_from_outside_stays_on_its_line() {
        assert_eq!(shown("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), NAME_MAX + 1);
    }
}
