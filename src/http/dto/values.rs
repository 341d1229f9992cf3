//! Values that several answers have in common.

use std::fmt::Display;

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::domain::{InputKind, InputValue, Person, Timestamp, UserId};

/// A value that is written as its text.
#[derive(Debug, Clone)]
pub struct Text<T>(pub T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// RFC 3339 in UTC with milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Time(pub Timestamp);

impl Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0.as_millis()) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => f.write_str("9999-12-30T22:00:00.999Z"),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl utoipa::PartialSchema for Time {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).into()
    }
}

impl ToSchema for Time {}

/// A member, by id and name.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = User)]
pub struct UserView<'a> {
    #[schema(value_type = UserId)]
    user_id: Text<UserId>,
    /// Unique in the organization.
    #[schema(example = "ana")]
    name: &'a str,
}

impl<'a> From<&'a Person> for UserView<'a> {
    fn from(person: &'a Person) -> Self {
        Self { user_id: Text(person.id), name: &person.name }
    }
}

/// A string, a number or a boolean.
#[derive(Debug)]
pub struct InputValueView<'a>(&'a InputValue);

impl Serialize for InputValueView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.text().as_str();
        match self.0.kind() {
            InputKind::String => serializer.serialize_str(text),
            InputKind::Boolean => serializer.serialize_bool(text == "true"),
            InputKind::Number => match text.parse::<serde_json::Number>() {
                Ok(number) => number.serialize(serializer),
                Err(_) => serializer.serialize_str(text),
            },
        }
    }
}

impl utoipa::PartialSchema for InputValueView<'_> {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
        let types = [Type::String, Type::Number, Type::Boolean].into_iter().collect();
        let schema = ObjectBuilder::new().schema_type(SchemaType::Array(types)).examples(["all"]);
        schema.description(Some("The value of a step's input: a string, a number or a boolean.")).into()
    }
}

impl ToSchema for InputValueView<'_> {
    fn name() -> std::borrow::Cow<'static, str> {
        "StepInputValue".into()
    }
}

impl<'a> From<&'a InputValue> for InputValueView<'a> {
    fn from(value: &'a InputValue) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_exactly_three_decimals_and_a_z() {
        assert_eq!(Time(Timestamp::from_millis(1_794_735_000_123)).to_string(), "2026-11-15T09:30:00.123Z");
        assert_eq!(Time(Timestamp::from_millis(0)).to_string(), "1970-01-01T00:00:00.000Z");
    }
}
