//! The traits of forms: reading, and the JSON schema.

use serde_json::{Value, json};

use super::element::{Element, Object, camel_case};
use super::reader::{Reader, Segment};
use super::schema::{ObjectSchema, Schemas, or_null, reference};

/// A value that is read from an element.
pub trait Form: Sized {
    /// `None` if the value was faulty; the fault has been reported.
    fn read(element: &Element<'_>, reader: &mut Reader) -> Option<Self>;

    /// The JSON schema of the value. Named schemas are added to `schemas` and referenced.
    fn schema(schemas: &mut Schemas) -> Value;

    /// The field that must be unique among the entries of a list, and the field's value in this entry.
    fn unique_name(_object: &Object<'_>, _index: usize) -> Option<(&'static str, String)> {
        None
    }
}

/// A value that can be a default, which the schema shows.
pub trait ToJson {
    fn to_json(&self) -> Value;
}

/// A closed set of names with its own schema, which requests and responses reference.
pub trait Choice: Copy + 'static {
    /// The schema's name.
    const SCHEMA: &'static str;
    const DESCRIPTION: &'static str;

    fn names() -> impl Iterator<Item = &'static str>;

    fn name(self) -> &'static str;
}

/// A form that is an object.
pub trait ObjectForm: Sized {
    fn each_name(found: &mut dyn FnMut(&'static str));

    fn read_fields(object: &Object<'_>, reader: &mut Reader) -> Option<Self>;

    /// Checks that involve more than one field. If a field has a fault, `_form` is `None`.
    fn check(_object: &Object<'_>, _form: Option<&Self>, _reader: &mut Reader) {}

    fn describe(schema: &mut ObjectSchema<'_>);
}

impl Reader {
    /// Reads a form with all its fields; any other field is a fault.
    pub fn form<T: ObjectForm>(&mut self, element: &Element<'_>) -> Option<T> {
        let object = self.object(element)?;
        let form = self.fields(&object);
        self.refuse_unknown(&object, T::each_name);
        form
    }

    /// Reads the fields of a form from an object that may have other fields.
    pub fn fields<T: ObjectForm>(&mut self, object: &Object<'_>) -> Option<T> {
        let form = T::read_fields(object, self);
        T::check(object, form.as_ref(), self);
        form
    }

    pub fn required<T: Form>(&mut self, object: &Object<'_>, name: &'static str) -> Option<T> {
        let value = self.nullable(object, name)?;
        if value.is_none() {
            self.field_fault(object, name, "is required");
        }
        value
    }

    /// A field that may be omitted or null. The outer `None` means that the field has a fault.
    pub fn nullable<T: Form>(&mut self, object: &Object<'_>, name: &'static str) -> Option<Option<T>> {
        if object.get(name).is_some_and(Element::is_null) { Some(None) } else { self.optional(object, name) }
    }

    /// A field that may be omitted. The outer `None` means that the field has a fault.
    pub fn optional<T: Form>(&mut self, object: &Object<'_>, name: &'static str) -> Option<Option<T>> {
        let Some(element) = object.get(name) else { return Some(None) };
        self.within(Segment::Field(name), |reader| T::read(element, reader)).map(Some)
    }

    pub fn entry<T: Form>(&mut self, index: usize, element: &Element<'_>) -> Option<T> {
        self.within(Segment::Index(index), |reader| T::read(element, reader))
    }

    pub fn value<T: Form>(&mut self, key: &str, element: &Element<'_>) -> Option<T> {
        self.within(Segment::Key(key.to_owned()), |reader| T::read(element, reader))
    }
}

impl Schemas {
    /// `name` is empty or has one element.
    pub fn form<T: ObjectForm>(&mut self, name: &[&str], doc: &[&str]) -> Value {
        let name = name.first().copied();
        if let Some(name) = name
            && self.0.contains_key(name)
        {
            return reference(name);
        }
        let mut object = ObjectSchema::new(self);
        T::describe(&mut object);
        match name {
            Some(name) => {
                let schema = object.finish(Some(name), doc);
                self.named(name, schema)
            }
            // The comment of an unnamed form is for readers of the code: the field with the form has its own comment.
            None => object.finish(None, &[]),
        }
    }

    pub fn choice<T: Choice>(&mut self) -> Value {
        let names: Vec<_> = T::names().collect();
        self.named(T::SCHEMA, json!({ "type": "string", "enum": names, "description": T::DESCRIPTION }))
    }
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
}
