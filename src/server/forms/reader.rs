//! Reads forms from elements. Reading continues after a fault, so that all faults are reported together.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::element::{Content, Element, Object, Spelling, shown};
use domain::Use;
use domain::nearest::nearest;

/// Deeper than the fields of most bodies.
const USUAL_DEPTH: usize = 4;

/// A fault of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldFault {
    /// The path from the root, such as `stages[1].steps[0].run`.
    pub field: String,
    /// The start of the faulty element in its file, in bytes.
    pub at: usize,
    /// The end of a sentence that begins with the field.
    pub message: String,
    /// If a name is not unique: where it was first used.
    pub first_at: Option<usize>,
}

#[derive(Debug)]
pub struct Reader {
    spelling: Spelling,
    path: SmallVec<[Segment; USUAL_DEPTH]>,
    faults: Vec<FieldFault>,
    uses: Vec<(String, Use)>,
}

#[derive(Debug)]
pub(super) enum Segment {
    Field(&'static str),
    /// A name chosen by the writer, such as that of a label.
    Key(String),
    Index(usize),
}

/// Returns the field that must be unique among the entries of a list, and the field's value in one entry.
type UniqueName = fn(&Object<'_>, usize) -> Option<(&'static str, String)>;

impl Reader {
    pub fn new(spelling: Spelling) -> Self {
        Self { spelling, path: SmallVec::new(), faults: Vec::new(), uses: Vec::new() }
    }

    pub fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Records that the current step uses a registry step.
    pub(super) fn note_use(&mut self, used: Use) {
        let field = self.field();
        self.uses.push((field, used));
    }

    /// Returns the used registry steps with the fields that use them; the caller checks them against the registries.
    pub fn take_uses(&mut self) -> Vec<(String, Use)> {
        std::mem::take(&mut self.uses)
    }

    pub fn into_faults(self) -> Vec<FieldFault> {
        self.faults
    }

    /// Reports a fault of the current element.
    pub fn fault(&mut self, at: usize, message: impl Into<String>) {
        let field = self.field();
        self.faults.push(FieldFault { field, at, message: message.into(), first_at: None });
    }

    /// Reports a fault of a field of the current object.
    pub fn field_fault(&mut self, object: &Object<'_>, name: &'static str, message: impl Into<String>) {
        self.within(Segment::Field(name), |reader| reader.fault(object.at_of(name), message));
    }

    /// Reports a fault outside the body, such as in a name in the path.
    pub fn outer_fault(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.faults.push(FieldFault { field: field.into(), at: 0, message: message.into(), first_at: None });
    }

    /// Reports an element of the wrong type. `allowed` completes "must be".
    pub fn mismatch(&mut self, element: &Element<'_>, allowed: &str) {
        let got = match &element.content {
            Content::Null => "null".to_owned(),
            Content::Boolean(_) => "a boolean".to_owned(),
            Content::Number(number) if allowed.starts_with("an integer") => number.to_string(),
            Content::Number(_) => "a number".to_owned(),
            Content::Text(_) => "a string".to_owned(),
            Content::Array(_) => "an array".to_owned(),
            Content::Object(_) => self.spelling.object().to_owned(),
            Content::Other(kind) => (*kind).to_owned(),
        };
        self.fault(element.at, format!("must be {allowed}, got {got}"));
    }

    pub fn text<'e>(&mut self, element: &'e Element<'_>) -> Option<&'e str> {
        let Content::Text(text) = &element.content else {
            self.mismatch(element, "a string");
            return None;
        };
        Some(text)
    }

    pub fn array<'e, 'a>(&mut self, element: &'e Element<'a>) -> Option<&'e [Element<'a>]> {
        let Content::Array(elements) = &element.content else {
            self.mismatch(element, "an array");
            return None;
        };
        Some(elements)
    }

    pub fn object<'e>(&mut self, element: &'e Element<'_>) -> Option<Object<'e>> {
        let Content::Object(entries) = &element.content else {
            self.mismatch(element, self.spelling.object());
            return None;
        };
        Some(Object { at: element.at, entries, spelling: self.spelling })
    }

    pub(super) fn refuse_unknown(&mut self, object: &Object<'_>, each_name: fn(&mut dyn FnMut(&'static str))) {
        for entry in object.entries {
            let mut is_known = false;
            each_name(&mut |name| is_known |= self.spelling.matches(&entry.name, name));
            if is_known {
                continue;
            }
            let mut known = Vec::new();
            each_name(&mut |name| known.push(self.spelling.spell(name)));
            let advice = match nearest(&entry.name, &known) {
                Some(meant) => format!("; did you mean `{meant}`?"),
                None if known.is_empty() => String::new(),
                None => format!("; known here: {}", known.join(", ")),
            };
            let message = format!("is not a known {}{advice}", self.word_for_field());
            self.within(Segment::Key(entry.name.to_string()), |reader| reader.fault(entry.name_at, message));
        }
    }

    /// A name as the source spells it.
    pub fn spell(&self, name: &str) -> String {
        self.spelling.spell(name)
    }

    fn word_for_field(&self) -> &'static str {
        match self.spelling {
            Spelling::Camel => "field",
            Spelling::Snake => "key",
        }
    }

    pub fn key_fault(&mut self, key: &str, at: usize, message: impl Into<String>) {
        self.within(Segment::Key(key.to_owned()), |reader| reader.fault(at, message));
    }

    /// Requires exactly one of these mutually exclusive groups. The first field of a group identifies the group; the
    /// others require the first.
    pub fn check_one_of(&mut self, object: &Object<'_>, groups: &[&[&'static str]]) {
        let quoted = |names: &[&'static str]| {
            let names: Vec<_> = names.iter().map(|name| format!("`{}`", self.spelling.spell(name))).collect();
            names.join(" or ")
        };
        let heads: Vec<_> = groups.iter().map(|group| group[0]).collect();
        let given: Vec<_> = heads.iter().copied().filter(|head| object.has(head)).collect();
        match &given[..] {
            [] => {
                let message = format!("is required, or {} instead", quoted(&heads[1..]));
                self.field_fault(object, heads[0], message);
            }
            [_] => {}
            [first, others @ ..] => {
                let message = format!("must not be combined with {}", quoted(others));
                self.field_fault(object, first, message);
            }
        }
        for group in groups {
            let (head, dependents) = (group[0], &group[1..]);
            for dependent in dependents.iter().filter(|name| object.has(name) && !object.has(head)) {
                let message = format!("is only allowed with `{}`", self.spelling.spell(head));
                self.field_fault(object, dependent, message);
            }
        }
    }

    pub fn check_any_of(&mut self, object: &Object<'_>, names: &[&'static str]) {
        if let [first, others @ ..] = names
            && !names.iter().any(|name| object.has(name))
        {
            let others: Vec<_> = others.iter().map(|name| format!("`{}`", self.spelling.spell(name))).collect();
            self.field_fault(object, first, format!("is required, or {}", others.join(" or ")));
        }
    }

    /// Reports names that are not unique within a list.
    pub(super) fn check_unique(&mut self, elements: &[Element<'_>], unique_name: UniqueName) {
        let mut used: HashMap<String, usize> = HashMap::new();
        for (index, element) in elements.iter().enumerate() {
            let Content::Object(entries) = &element.content else { continue };
            let object = Object { at: element.at, entries, spelling: self.spelling };
            let Some((field, name)) = unique_name(&object, index) else { continue };
            let at = object.at_of(field);
            let Some(&first_at) = used.get(&name) else {
                used.insert(name, at);
                continue;
            };
            let message = format!("`{}` is used twice", shown(&name));
            self.within(Segment::Index(index), |reader| {
                reader.within(Segment::Field(field), |reader| {
                    let field = reader.field();
                    reader.faults.push(FieldFault { field, at, message, first_at: Some(first_at) });
                });
            });
        }
    }

    pub(super) fn within<T>(&mut self, segment: Segment, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(segment);
        let value = read(self);
        self.path.pop();
        value
    }

    /// The path of the current element. A path in a file has no indexes of array tables: the line shows which table it
    /// is.
    fn field(&self) -> String {
        let mut field = String::new();
        for (place, segment) in self.path.iter().enumerate() {
            let name = match segment {
                Segment::Field(name) => self.spelling.spell(name),
                Segment::Key(key) if self.spelling == Spelling::Snake => shown(key),
                Segment::Key(key) => key.clone(),
                Segment::Index(index) => {
                    let is_table = matches!(self.path.get(place + 1), Some(Segment::Field(_) | Segment::Key(_)));
                    if self.spelling == Spelling::Camel || !is_table {
                        field.push_str(&format!("[{index}]"));
                    }
                    continue;
                }
            };
            if !field.is_empty() {
                field.push('.');
            }
            field.push_str(&name);
        }
        if field.is_empty() { "body".to_owned() } else { field }
    }
}
