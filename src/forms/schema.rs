//! JSON schemas of forms.

use serde_json::{Map, Value, json};

use super::names::camel_case;
use super::{Form, ObjectForm};

/// The schemas that have a name.
#[derive(Debug, Default)]
pub struct Schemas(pub Map<String, Value>);

/// The schema of an object, as its fields are described one by one.
pub struct ObjectSchema<'s> {
    schemas: &'s mut Schemas,
    properties: Map<String, Value>,
    required: Vec<String>,
    groups: Vec<Vec<String>>,
    extra: Map<String, Value>,
}

impl Schemas {
    /// `name` has one, or none.
    pub fn form<T: ObjectForm>(&mut self, name: &[&str], doc: &[&str]) -> Value {
        let name = name.first().copied();
        if let Some(name) = name
            && self.0.contains_key(name)
        {
            return reference(name);
        }
        let mut object = ObjectSchema {
            schemas: self,
            properties: Map::new(),
            required: Vec::new(),
            groups: Vec::new(),
            extra: Map::new(),
        };
        T::describe(&mut object);
        // The comment of one that has no name is for readers of the code: the field that it is for has its own.
        let schema = object.finish(if name.is_some() { doc } else { &[] });
        match name {
            Some(name) => {
                self.0.insert(name.to_owned(), schema);
                reference(name)
            }
            None => schema,
        }
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

impl ObjectSchema<'_> {
    pub fn required<T: Form>(&mut self, name: &str, doc: &[&str], extra: Value) {
        self.required.push(camel_case(name));
        self.optional::<T>(name, doc, extra);
    }

    pub fn optional<T: Form>(&mut self, name: &str, doc: &[&str], extra: Value) {
        let schema = T::schema(self.schemas);
        self.add(name, schema, doc, extra);
    }

    pub fn nullable<T: Form>(&mut self, name: &str, doc: &[&str], extra: Value) {
        let schema = or_null(T::schema(self.schemas));
        self.add(name, schema, doc, extra);
    }

    fn add(&mut self, name: &str, mut schema: Value, doc: &[&str], extra: Value) {
        if let (Some(schema), Value::Object(extra)) = (schema.as_object_mut(), extra) {
            schema.extend(extra);
            describe(schema, doc);
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

    fn finish(self, doc: &[&str]) -> Value {
        let object = |properties: &Map<String, Value>, required: &[String]| {
            let mut schema = json!({ "type": "object", "additionalProperties": false, "properties": properties });
            if !required.is_empty() {
                schema["required"] = json!(required);
            }
            schema
        };
        let mut schema = if self.groups.is_empty() {
            object(&self.properties, &self.required)
        } else {
            let variant = |group: &Vec<String>| {
                let is_elsewhere =
                    |name: &String| !group.contains(name) && self.groups.iter().any(|g| g.contains(name));
                let mut properties = self.properties.clone();
                properties.retain(|name, _| !is_elsewhere(name));
                let required: Vec<_> = self.required.iter().chain(group.first()).cloned().collect();
                object(&properties, &required)
            };
            json!({ "oneOf": self.groups.iter().map(variant).collect::<Vec<_>>() })
        };
        if let Some(schema) = schema.as_object_mut() {
            schema.extend(self.extra);
            describe(schema, doc);
        }
        schema
    }
}

fn describe(schema: &mut Map<String, Value>, doc: &[&str]) {
    let lines: Vec<_> = doc.iter().map(|line| line.trim()).collect();
    if !lines.is_empty() {
        schema.entry("description").or_insert_with(|| json!(lines.join(" ").trim()));
    }
}

fn or_null(mut schema: Value) -> Value {
    if let Some(kind) = schema.get("type").cloned() {
        schema["type"] = json!([kind, "null"]);
        schema
    } else if let Some(choices) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        choices.push(Value::Null);
        schema
    } else {
        json!({ "oneOf": [schema, { "type": "null" }] })
    }
}
