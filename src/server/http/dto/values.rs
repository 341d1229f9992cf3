//! Values that several responses use.

use std::cell::Cell;
use std::fmt::Display;

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::written::{UserId, Written};
use domain::{InputKind, InputValue, Person, Timestamp};
use http1::json::Plain;

/// A value written as its text.
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

/// The text of a time, created without `core::fmt` for speed: every response contains several.
struct TimeText([u8; "2026-11-15T09:30:00.123Z".len()]);

const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

impl Time {
    fn text(self) -> TimeText {
        let millis = self.0.as_millis();
        let Some(date) = date_of(millis.div_euclid(DAY_MILLIS)) else {
            return TimeText(*b"9999-12-30T22:00:00.999Z");
        };
        let mut text = TimeText(*b"0000-00-00T00:00:00.000Z");
        text.0[..date.len()].copy_from_slice(&date);
        let of_day = millis.rem_euclid(DAY_MILLIS) as u32;
        let (seconds, millis) = (of_day / 1000, of_day % 1000);
        text.0[20] += (millis / 100) as u8;
        for (place, number) in [(11, seconds / 3600), (14, seconds / 60 % 60), (17, seconds % 60), (21, millis % 100)] {
            text.0[place] += (number / 10) as u8;
            text.0[place + 1] += (number % 10) as u8;
        }
        text
    }
}

type DateText = [u8; "2026-11-15".len()];

/// The date of a day since 1970. Caches the last one, since most times of a response are on the same day.
fn date_of(day: i64) -> Option<DateText> {
    thread_local! {
        static LAST: Cell<Option<(i64, DateText)>> = const { Cell::new(None) };
    }
    let remembered = LAST.get().filter(|(of, _)| *of == day);
    remembered.or_else(|| Some((day, written_date(day)?)).inspect(|made| LAST.set(Some(*made)))).map(|(_, date)| date)
}

/// `None` if the year does not fit the format.
fn written_date(day: i64) -> Option<DateText> {
    let midnight = jiff::Timestamp::from_millisecond(day.checked_mul(DAY_MILLIS)?).ok()?;
    let date = jiff::tz::Offset::UTC.to_datetime(midnight).date();
    date.to_string().as_bytes().try_into().ok()
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Plain::new(&self.text().0).serialize(serializer)
    }
}

impl Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(str::from_utf8(&self.text().0).expect("digits and the signs between them are ASCII"))
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

view! {
    /// A member, by id and name.
    pub struct UserView<'a> as User of (person: &'a Person) {
        user_id: UserId = Written(person.id),
        /// The member's name, unique in the organization.
        #[schema(example = "ana")]
        name: &'a str = &person.name,
    }
}

/// A string, a number or a boolean.
#[derive(Debug)]
pub struct InputValueView<'a>(pub &'a InputValue);

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
