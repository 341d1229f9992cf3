//! Tables whose keys the file chooses: inputs of a step, and what a step is given.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::domain::{InputValue, Malformed, VariableName, VariableValue};

use super::document::Section;
use super::fault::{Fault, shown};

impl<'a> Section<'a> {
    /// The string, number or boolean `key`, if it is there.
    pub(super) fn input(&self, key: &str, faults: &mut Vec<Fault>) -> Option<InputValue> {
        let value = self.table.get(key)?;
        self.input_of(key, value, faults)
    }

    /// The entries of the table `key`, `max` of them at most: strings, numbers and booleans.
    pub(super) fn inputs(&self, key: &str, max: usize, faults: &mut Vec<Fault>) -> BTreeMap<VariableName, InputValue> {
        let mut inputs = BTreeMap::new();
        for (name, value) in self.named(key, "a table of strings, numbers and booleans", max, faults) {
            let full = format!("{key}.{}", shown(name.get_ref()));
            let input = self.input_of(&full, value, faults);
            let name = self.input_name(&full, name, faults);
            inputs.extend(name.zip(input));
        }
        inputs
    }

    /// The tables in the table `key`, `max` of them at most, without a name where that is wrong. `called` is what they are
    /// called in faults.
    pub(super) fn named_sections(
        &self,
        key: &str,
        called: &'static str,
        max: usize,
        faults: &mut Vec<Fault>,
    ) -> Vec<(Option<VariableName>, Section<'a>)> {
        let mut sections = Vec::new();
        for (name, value) in self.named(key, "a table of tables", max, faults) {
            let full = format!("{key}.{}", shown(name.get_ref()));
            let Some(table) = value.get_ref().as_table() else {
                faults.push(self.wrong_type(&full, value, "a table"));
                continue;
            };
            let name = self.input_name(&full, name, faults);
            sections.push((name, self.inner(called, table, value)));
        }
        sections
    }

    fn named(
        &self,
        key: &str,
        allowed: &str,
        max: usize,
        faults: &mut Vec<Fault>,
    ) -> impl Iterator<Item = (&'a Spanned<std::borrow::Cow<'a, str>>, &'a Spanned<DeValue<'a>>)> + use<'a> {
        let value = self.table.get(key);
        let table: Option<&'a DeTable<'a>> = value.and_then(|value| value.get_ref().as_table());
        if let Some(value) = value.filter(|_| table.is_none()) {
            faults.push(self.wrong_type(key, value, allowed));
        }
        if let (Some(value), Some(table)) = (value, table.filter(|table| table.len() > max)) {
            let message = format!("{} has {} entries; at most {max} are allowed", self.full_name(key), table.len());
            faults.push(Fault::new(self.document.place(value), message));
        }
        table.into_iter().flatten()
    }

    fn input_name(
        &self,
        full: &str,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        faults: &mut Vec<Fault>,
    ) -> Option<VariableName> {
        let parsed = VariableName::parse(name.get_ref());
        parsed.map_err(|error| faults.push(self.malformed(&format!("{full}: the name"), name, &error))).ok()
    }

    fn input_of(&self, key: &str, value: &Spanned<DeValue<'_>>, faults: &mut Vec<Fault>) -> Option<InputValue> {
        let input = match value.get_ref() {
            DeValue::String(text) => VariableValue::parse(text).map(InputValue::string),
            DeValue::Boolean(value) => Ok(InputValue::boolean(*value)),
            DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
                .map_err(|_| Malformed("is a number of at most 64 bits"))
                .and_then(|number| InputValue::number(&number.to_string())),
            DeValue::Float(float) => float
                .as_str()
                .parse::<f64>()
                .map_err(|_| Malformed("is a finite number"))
                .and_then(|number| InputValue::number(&number.to_string())),
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                faults.push(self.wrong_type(key, value, "a string, a number or a boolean"));
                return None;
            }
        };
        input.map_err(|error| faults.push(self.malformed(key, value, &error))).ok()
    }
}
