//! Values that several answers have in common.

use std::fmt::Display;

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::domain::{Id, InputKind, InputValue, Person, Timestamp, UserId};

/// A value that is written as its text.
#[derive(Debug, Clone)]
pub struct Text<T>(pub T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// An id, written as its text.
#[derive(Debug, Clone)]
pub struct Written<T>(pub T);

impl<T: Id> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.text())
    }
}

/// RFC 3339 in UTC with milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Time(pub Timestamp);

/// The text of a time, made without `core::fmt`: every answer has several.
struct TimeText([u8; "2026-11-15T09:30:00.123Z".len()]);

impl Time {
    fn text(self) -> TimeText {
        let Ok(time) = jiff::Timestamp::from_millisecond(self.0.as_millis()) else {
            return TimeText(*b"9999-12-30T22:00:00.999Z");
        };
        let time = jiff::tz::Offset::UTC.to_datetime(time);
        let mut text = TimeText(*b"0000-00-00T00:00:00.000Z");
        // Only times since 1970 are written.
        let (year, milliseconds) = (time.year().unsigned_abs(), time.millisecond().unsigned_abs());
        text.0[20] += (milliseconds / 100) as u8;
        let pairs = [(0, (year / 100) as u8), (2, (year % 100) as u8), (21, (milliseconds % 100) as u8)];
        let others = [(5, time.month()), (8, time.day()), (11, time.hour()), (14, time.minute()), (17, time.second())];
        for (place, number) in pairs.into_iter().chain(others.map(|(place, number)| (place, number.unsigned_abs()))) {
            text.0[place] += number / 10;
            text.0[place + 1] += number % 10;
        }
        text
    }
}

impl TimeText {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("digits and the signs between them are ASCII")
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text().as_str())
    }
}

impl Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text().as_str())
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
    user_id: Written<UserId>,
    /// Unique in the organization.
    #[schema(example = "ana")]
    name: &'a str,
}

impl<'a> From<&'a Person> for UserView<'a> {
    fn from(person: &'a Person) -> Self {
        Self { user_id: Written(person.id), name: &person.name }
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
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_time_has_exactly_three_decimals_and_a_z() {
        assert_eq!(Time(Timestamp::from_millis(1_794_735_000_123)).to_string(), "2026-11-15T09:30:00.123Z");
        assert_eq!(Time(Timestamp::from_millis(0)).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Time(Timestamp::from_millis(i64::MAX)).to_string(), "9999-12-30T22:00:00.999Z");
    }

    proptest! {
        #[test]
        fn a_time_is_written_as_the_library_for_times_writes_it(millis in 0..=253_402_207_200_999_i64) {
            let written = Time(Timestamp::from_millis(millis)).to_string();
            prop_assert_eq!(written, format!("{:.3}", jiff::Timestamp::from_millisecond(millis).unwrap()));
        }
    }
}
