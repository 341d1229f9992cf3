//! JSON schemas of forms.

use serde_json::{Map, Value, json};

use super::element::camel_case;

/// The named schemas.
#[derive(Debug, Default)]
pub struct Schemas(pub Map<String, Value>);

/// The schema of an object, built field by field.
pub struct ObjectSchema<'s> {
    pub(super) schemas: &'s mut Schemas,
    properties: Map<String, Value>,
    pub(super) required: Vec<String>,
    groups: Vec<Vec<String>>,
    extra: Map<String, Value>,
}

impl Schemas {
    /// Adds a schema and returns a reference to it.
    pub fn named(&mut self, name: &str, schema: Value) -> Value {
        self.0.insert(name.to_owned(), schema);
        reference(name)
    }
}

pub fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

impl<'s> ObjectSchema<'s> {
    pub(super) fn new(schemas: &'s mut Schemas) -> Self {
        let (properties, extra) = (Map::new(), Map::new());
        Self { schemas, properties, required: Vec::new(), groups: Vec::new(), extra }
    }

    pub(super) fn add(&mut self, name: &str, mut schema: Value, doc: &[&str], extra: Value) {
        if let (Some(schema), Value::Object(mut extra)) = (schema.as_object_mut(), extra) {
            // The default goes into the text: generators treat a field with a `default` as present in every request.
            let default = extra.remove("default").map(|default| format!("Default: `{default}`."));
            schema.extend(extra);
            let doc: Vec<_> = doc.iter().copied().chain(default.as_deref()).collect();
            describe(schema, &doc);
        }
        self.properties.insert(camel_case(name), schema);
    }

    pub fn one_of(&mut self, groups: &[&[&str]]) {
        let spelled = groups.iter().map(|group| group.iter().map(|name| camel_case(name)).collect());
        self.groups = spelled.collect();
    }

    pub fn extra(&mut self, extra: Value) {
        if let Value::Object(extra) = extra {
            self.extra.extend(extra);
        }
    }

    pub(super) fn finish(self, name: Option<&str>, doc: &[&str]) -> Value {
        let mut schema = if self.groups.is_empty() {
            object(&self.properties, &self.required)
        } else {
            let variants: Vec<_> = self.groups.iter().map(|group| self.variant(group)).collect();
            match name {
                Some(name) => {
                    let named = self.groups.iter().zip(variants).map(|(group, mut variant)| {
                        let field = group.first().map_or("", String::as_str);
                        if let Some(variant) = variant.as_object_mut() {
                            describe(variant, &[&format!("The `{name}` that has `{field}`.")]);
                        }
                        self.schemas.named(&format!("{name}With{}", capitalized(field)), variant)
                    });
                    json!({ "oneOf": named.collect::<Vec<_>>() })
                }
                None => json!({ "oneOf": variants }),
            }
        };
        if let Some(schema) = schema.as_object_mut() {
            schema.extend(self.extra);
            describe(schema, doc);
        }
        schema
    }

    /// The object with the fields of one group and without those of the other groups.
    fn variant(&self, group: &[String]) -> Value {
        let is_elsewhere = |name: &String| !group.contains(name) && self.groups.iter().any(|g| g.contains(name));
        let mut properties = self.properties.clone();
        properties.retain(|name, _| !is_elsewhere(name));
        let required: Vec<_> = self.required.iter().chain(group.first()).cloned().collect();
        object(&properties, &required)
    }
}

fn object(properties: &Map<String, Value>, required: &[String]) -> Value {
    let mut schema = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn capitalized(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

fn describe(schema: &mut Map<String, Value>, doc: &[&str]) {
    let lines: Vec<_> = doc.iter().map(|line| line.trim()).collect();
    if !lines.is_empty() {
        schema.entry("description").or_insert_with(|| json!(lines.join(" ").trim()));
    }
}

pub(super) fn or_null(mut schema: Value) -> Value {
    match schema.get("type").cloned() {
        Some(Value::Array(kinds)) => {
            schema["type"] = kinds.into_iter().chain([json!("null")]).collect();
            schema
        }
        Some(kind) => {
            schema["type"] = json!([kind, "null"]);
            schema
        }
        None => json!({ "oneOf": [schema, { "type": "null" }] }),
    }
}
