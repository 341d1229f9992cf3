//! Fields whose names the caller chooses: inputs of a step, and what a step is given.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::fields::Fields;
use super::json::Json;
use crate::domain::{InputValue, Malformed, VariableName, VariableValue};

impl Fields {
    /// A string, a number or a boolean that may be left out or null.
    pub fn input(&mut self, name: &str) -> Option<InputValue> {
        match self.take(name)? {
            Json::Null => None,
            value => self.input_of(name, &value),
        }
    }

    /// An object of strings, numbers and booleans, each entry under the name `name.key`.
    pub fn inputs(&mut self, name: &str, entries_max: usize) -> Option<BTreeMap<VariableName, InputValue>> {
        let entries = self.named(name, "strings, numbers and booleans", entries_max)?;
        let mut inputs = BTreeMap::new();
        for (key, value) in entries {
            let field = format!("{name}.{key}");
            let value = self.input_of(&field, &value);
            self.enter(&mut inputs, &field, &key, value);
        }
        Some(inputs)
    }

    /// An object of objects, each entry under the name `name.key`. `read` takes the fields of each.
    pub fn named_objects<T>(
        &mut self,
        name: &str,
        entries_max: usize,
        mut read: impl FnMut(&mut Fields) -> Option<T>,
    ) -> Option<BTreeMap<VariableName, T>> {
        let entries = self.named(name, "objects", entries_max)?;
        let mut objects = BTreeMap::new();
        for (key, value) in entries {
            let field = format!("{name}.{key}");
            let object = match value {
                Json::Object(inner) => self.within(&field, inner, &mut read),
                other => {
                    self.wrong(&field, format!("is an object, not {}", other.kind()));
                    None
                }
            };
            self.enter(&mut objects, &field, &key, object);
        }
        Some(objects)
    }

    fn named(&mut self, name: &str, of: &str, entries_max: usize) -> Option<Vec<(String, Json)>> {
        match self.take(name)? {
            Json::Object(entries) => {
                if entries.len() > entries_max {
                    self.wrong(name, format!("has at most {entries_max} entries"));
                }
                Some(entries)
            }
            other => {
                self.wrong(name, format!("is an object of {of}, not {}", other.kind()));
                None
            }
        }
    }

    fn enter<T>(&mut self, into: &mut BTreeMap<VariableName, T>, field: &str, key: &str, value: Option<T>) {
        match (VariableName::parse(key), value) {
            (Ok(name), Some(value)) => match into.entry(name) {
                Entry::Vacant(free) => _ = free.insert(value),
                Entry::Occupied(_) => self.wrong(field, "is there twice"),
            },
            (Ok(_), None) => {}
            (Err(malformed), _) => self.wrong(field, format!("has a name that {malformed}")),
        }
    }

    fn input_of(&mut self, field: &str, value: &Json) -> Option<InputValue> {
        let input = match value {
            Json::Text(text) => VariableValue::parse(text).map(InputValue::string),
            Json::Number(number) => InputValue::number(&number.to_string()),
            Json::Bool(value) => Ok(InputValue::boolean(*value)),
            Json::Null | Json::Array(_) | Json::Object(_) => Err(Malformed("is a string, a number or a boolean")),
        };
        input.map_err(|malformed| self.wrong(field, malformed.to_string())).ok()
    }
}
