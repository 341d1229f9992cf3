//! Types of fields, with their bounds.

use std::collections::BTreeMap;

use serde_json::{Map as JsonMap, Value, json};

use super::element::{Content, Element};
use super::reader::Reader;
use super::schema::{Schemas, or_null};
use super::{Form, ToJson};
use domain::nearest::did_you_mean;
use domain::pipeline::URL_LENGTH_MAX;
use domain::{
    AnalysisId, ApprovalId, ApprovalRule, ApprovalStatus, CommitId, Context, DeliveryId, DeploymentId,
    DeploymentStatus, Description, Email, Identifier, InputKind, InputValue, LabelValue, LockStatus, Malformed,
    RegistryId, Role, SessionId, SessionStatus, StepReference, TextRule, TokenId, VariableName, VariableValue,
    WebhookId,
};

impl Form for bool {
    fn read(element: &Element<'_>, reader: &mut Reader) -> Option<Self> {
        let Content::Boolean(value) = element.content else {
            reader.mismatch(element, "a boolean");
            return None;
        };
        Some(value)
    }

    fn schema(_schemas: &mut Schemas) -> Value {
        json!({ "type": "boolean", "examples": [true] })
    }
}

impl ToJson for bool {
    fn to_json(&self) -> Value {
        json!(self)
    }
}

/// An integer from `MIN` to `MAX`, in any notation: `5`, `5.0` and `5e0` are the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integer<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Integer<MIN, MAX> {
    pub const fn new(value: i64) -> Self {
        assert!(MIN <= value && value <= MAX, "a number within its bounds");
        Self(value)
    }

    pub const fn get(self) -> i64 {
        self.0
    }

    pub const fn u32(self) -> u32 {
        const { assert!(0 <= MIN && MAX <= u32::MAX as i64, "the bounds of a u32") };
        self.0 as u32
    }

    pub const fn u64(self) -> u64 {
        const { assert!(0 <= MIN, "the bounds of a u64") };
        self.0 as u64
    }
}

impl<const MIN: i64, const MAX: i64> Form for Integer<MIN, MAX> {
    fn read(element: &Element<'_>, reader: &mut Reader) -> Option<Self> {
        let integer = if let Content::Number(number) = &element.content { whole(number) } else { None };
        let fitting = integer.filter(|integer| (MIN..=MAX).contains(integer));
        if fitting.is_none() {
            reader.mismatch(element, &format!("an integer from {MIN} to {MAX}"));
        }
        fitting.map(Self)
    }

    fn schema(_schemas: &mut Schemas) -> Value {
        json!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

impl<const MIN: i64, const MAX: i64> ToJson for Integer<MIN, MAX> {
    fn to_json(&self) -> Value {
        json!(self.0)
    }
}

fn whole(number: &serde_json::Number) -> Option<i64> {
    /// Up to this value, every integer is exact as a floating-point number.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let rounded = || number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT_MAX);
    number.as_i64().or_else(|| rounded().map(|float| float as i64))
}

/// A string with a format.
pub trait Text: Sized {
    fn parse_text(text: &str) -> Result<Self, Malformed>;

    fn text_schema() -> Value;
}

pub fn rule_schema(rule: &TextRule) -> Value {
    let mut schema = JsonMap::from_iter([("type".to_owned(), json!("string"))]);
    schema.extend(rule.pattern().map(|pattern| ("pattern".to_owned(), json!(pattern))));
    schema.extend(rule.min_length().map(|min| ("minLength".to_owned(), json!(min))));
    schema.extend(rule.max_length().map(|max| ("maxLength".to_owned(), json!(max))));
    Value::Object(schema)
}

/// Adds an example, which is also shown where the text appears on its own, such as in a path.
pub fn example_of(mut schema: Value, example: &str) -> Value {
    schema["examples"] = json!([example]);
    schema
}

/// Implements `Form` for types that are read from text, given a parser and a schema. A name makes the schema a separate
/// one.
#[macro_export]
macro_rules! texts {
    ($($type:ty $(as $name:literal)?: $parse:expr, $schema:expr;)*) => {
        $(
            impl $crate::forms::Text for $type {
                fn parse_text(text: &str) -> Result<Self, $crate::forms::Malformed> {
                    $parse(text)
                }

                fn text_schema() -> serde_json::Value {
                    $schema
                }
            }

            impl $crate::forms::Form for $type {
                fn read(
                    element: &$crate::forms::Element<'_>,
                    reader: &mut $crate::forms::Reader,
                ) -> Option<Self> {
                    let text = reader.text(element)?;
                    <Self as $crate::forms::Text>::parse_text(text)
                        .map_err(|malformed| reader.fault(element.at, malformed.to_string()))
                        .ok()
                }

                fn schema(_schemas: &mut $crate::forms::Schemas) -> serde_json::Value {
                    let schema = <Self as $crate::forms::Text>::text_schema();
                    $(let schema = _schemas.named($name, schema);)?
                    schema
                }
            }
        )*
    };
}

pub use texts;

/// Defines types for texts without their own domain type: by a rule, or by a check and the pattern that documents it.
macro_rules! new_texts {
    ($($(#[$doc:meta])* $name:ident: $(by $rule:ident)? $(from $check:ident, $pattern:ident)?;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
            pub struct $name(pub std::sync::Arc<str>);

            impl $crate::forms::ToJson for $name {
                fn to_json(&self) -> serde_json::Value {
                    serde_json::json!(&*self.0)
                }
            }

            $crate::forms::texts! {
                $name:
                    |text: &str| {
                        $($rule.check(text)?;)?
                        $($check(text)?;)?
                        Ok(Self(std::sync::Arc::from(text)))
                    },
                {
                    $($crate::forms::rule_schema(&$rule))?
                    $($crate::forms::url_schema($pattern))?
                };
            }
        )*
    };
}

pub(crate) use new_texts;

pub fn id_schema(pattern: &str, example: &str) -> Value {
    json!({ "type": "string", "pattern": pattern, "examples": [example] })
}

pub(crate) fn url_schema(pattern: &str) -> Value {
    json!({ "type": "string", "maxLength": URL_LENGTH_MAX, "pattern": pattern })
}

texts! {
    Identifier: Self::parse, rule_schema(&Self::RULE);
    CommitId: Self::parse, example_of(rule_schema(&Self::RULE), "c0ffee1");
    Context: Self::parse, example_of(rule_schema(&Self::RULE), "PR 412");
    Description: Self::parse, example_of(rule_schema(&Self::RULE), "For trying things out");
    Email: Self::parse, json!({
        "type": "string", "maxLength": Self::LENGTH_MAX, "pattern": Self::PATTERN, "examples": ["ana@acme.example"],
    });
    LabelValue: Self::parse, example_of(rule_schema(&Self::RULE), "large");
    VariableName: Self::parse, rule_schema(&Self::RULE);
    VariableValue: Self::parse, example_of(rule_schema(&Self::RULE), "review");
    StepReference: Self::parse, id_schema(&Self::pattern(), "tools/build@1.2.0");
    SessionId: str::parse, id_schema(Self::PATTERN, Self::EXAMPLE);
    DeploymentId: str::parse, id_schema(Self::PATTERN, Self::EXAMPLE);
    ApprovalId: str::parse, id_schema(Self::PATTERN, Self::EXAMPLE);
    AnalysisId: str::parse, id_schema(Self::PATTERN, Self::EXAMPLE);
    RegistryId: str::parse, id_schema(Self::PATTERN, Self::EXAMPLE);
    TokenId: str::parse, id_schema(Self::PATTERN, Self::EXAMPLE);
    WebhookId: str::parse, id_schema(Self::PATTERN, Self::EXAMPLE);
    DeliveryId: str::parse, id_schema(Self::PATTERN, Self::EXAMPLE);
}

/// Implements `Choice` for enums with `ALL` and `as_str`.
macro_rules! named_choices {
    ($($type:ty as $name:literal: $description:literal;)*) => {
        $(
            impl $crate::forms::Choice for $type {
                const SCHEMA: &'static str = $name;
                const DESCRIPTION: &'static str = $description;

                fn names() -> impl Iterator<Item = &'static str> {
                    <$type>::ALL.iter().map(|choice| choice.as_str())
                }

                fn name(self) -> &'static str {
                    self.as_str()
                }
            }
        )*
    };
}

pub(crate) use named_choices;

/// Implements `Choice` and `Form`, for enums that requests contain.
macro_rules! choices {
    ($($type:ty as $name:literal: $description:literal;)*) => {
        $crate::forms::named_choices! { $($type as $name: $description;)* }
        $(
            impl $crate::forms::Form for $type {
                fn read(
                    element: &$crate::forms::Element<'_>,
                    reader: &mut $crate::forms::Reader,
                ) -> Option<Self> {
                    reader.choice(element, &<$type>::ALL, |choice| choice.as_str())
                }

                fn schema(schemas: &mut $crate::forms::Schemas) -> serde_json::Value {
                    schemas.choice::<$type>()
                }
            }

            impl $crate::forms::ToJson for $type {
                fn to_json(&self) -> serde_json::Value {
                    serde_json::json!(self.as_str())
                }
            }
        )*
    };
}

pub(crate) use choices;

choices! {
    Role as "Role": "What a member may do; each role includes those before it. `viewer` reads; `developer` claims, deploys and \
        releases its own sessions; `maintainer` releases any session, approves, and manages pipelines, environments, secrets \
        and step registries; `admin` manages members, tokens and webhooks.";
    LockStatus as "LockStatus": "The status of an environment. `resetting`: its `onRelease` deployment runs.";
    SessionStatus as "SessionStatus": "The status of a session: `queued` while it waits, `active` while it has the lock; the \
        others say how it ended.";
    DeploymentStatus as "DeploymentStatus": "The status of a deployment. `cancelling`: told to stop, and may still run.";
    ApprovalStatus as "ApprovalStatus": "The status of an approval. `cancelled`: the deployment ended before somebody decided.";
    ApprovalRule as "ApprovalRule": "Whether somebody has to approve a stage, each time before it starts.";
    InputKind as "StepInputType": "The type of a step's input.";
}

impl Reader {
    pub fn choice<T: Copy>(&mut self, element: &Element<'_>, all: &[T], name: fn(T) -> &'static str) -> Option<T> {
        let text = self.text(element)?;
        choose(text, all, name).map_err(|message| self.fault(element.at, message)).ok()
    }
}

/// The choice with this name, or why there is none.
pub fn choose<T: Copy>(text: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Result<T, String> {
    all.iter().copied().find(|choice| name(*choice) == text).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|choice| name(*choice)).collect();
        format!("must be one of {}{}", names.join(", "), did_you_mean(text, &names))
    })
}

/// A value, or null to remove the present one. Used in an `optional` field, where omitting it means no change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clearable<T>(pub Option<T>);

impl<T: Form> Form for Clearable<T> {
    fn read(element: &Element<'_>, reader: &mut Reader) -> Option<Self> {
        if element.is_null() { Some(Self(None)) } else { T::read(element, reader).map(|value| Self(Some(value))) }
    }

    fn schema(schemas: &mut Schemas) -> Value {
        or_null(T::schema(schemas))
    }
}

/// A list of `MIN` to `MAX` entries.
#[derive(Debug, Clone)]
pub struct List<T, const MIN: usize, const MAX: usize>(pub Vec<T>);

impl<T, const MAX: usize> Default for List<T, 0, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Form, const MIN: usize, const MAX: usize> Form for List<T, MIN, MAX> {
    fn read(element: &Element<'_>, reader: &mut Reader) -> Option<Self> {
        let elements = reader.array(element)?;
        let fits = reader.check_count(element.at, elements.len(), MIN, MAX);
        let elements = &elements[..elements.len().min(MAX)];
        let entries: Vec<_> = elements.iter().enumerate().map(|(index, entry)| reader.entry(index, entry)).collect();
        reader.check_unique(elements, T::unique_name);
        let entries: Option<Vec<T>> = entries.into_iter().collect();
        entries.filter(|_| fits).map(Self)
    }

    fn schema(schemas: &mut Schemas) -> Value {
        let mut schema = json!({ "type": "array", "maxItems": MAX, "items": T::schema(schemas) });
        if MIN > 0 {
            schema["minItems"] = json!(MIN);
        }
        schema
    }
}

/// Only an empty list can be a default.
impl<T, const MAX: usize> ToJson for List<T, 0, MAX> {
    fn to_json(&self) -> Value {
        json!([])
    }
}

impl Reader {
    pub(super) fn check_count(&mut self, at: usize, count: usize, min: usize, max: usize) -> bool {
        let entries = |count| if count == 1 { "entry" } else { "entries" };
        if count > max {
            self.fault(at, format!("must have at most {max} {}, got {count}", entries(max)));
        } else if count < min {
            self.fault(at, format!("must have at least {min} {}, got {count}", entries(min)));
        }
        (min..=max).contains(&count)
    }
}

/// An object with at most `MAX` names that the writer chooses.
#[derive(Debug, Clone)]
pub struct Map<K, V, const MAX: usize>(pub BTreeMap<K, V>);

impl<K, V, const MAX: usize> Default for Map<K, V, MAX> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Text + Ord, V: Form, const MAX: usize> Form for Map<K, V, MAX> {
    fn read(element: &Element<'_>, reader: &mut Reader) -> Option<Self> {
        let object = reader.object(element)?;
        let mut fits = reader.check_count(element.at, object.entries.len(), 0, MAX);
        let mut map = BTreeMap::new();
        for entry in object.entries {
            let key = K::parse_text(&entry.name).map_err(|malformed| {
                reader.key_fault(&entry.name, entry.name_at, format!("is not a valid name: {malformed}"));
            });
            let value = reader.value(&entry.name, &entry.element);
            fits &= key.is_ok() && value.is_some();
            map.extend(key.ok().zip(value));
        }
        fits.then_some(Self(map))
    }

    fn schema(schemas: &mut Schemas) -> Value {
        let names = K::text_schema();
        json!({
            "type": "object", "maxProperties": MAX, "propertyNames": { "pattern": names["pattern"] },
            "additionalProperties": V::schema(schemas),
        })
    }
}

/// A string, a number or a boolean.
impl Form for InputValue {
    fn read(element: &Element<'_>, reader: &mut Reader) -> Option<Self> {
        let value = match &element.content {
            Content::Text(text) => VariableValue::parse(text).map(InputValue::string),
            Content::Number(number) => InputValue::number(&number.to_string()),
            Content::Boolean(value) => Ok(InputValue::boolean(*value)),
            Content::Null | Content::Array(_) | Content::Object(_) | Content::Other(_) => {
                reader.mismatch(element, "a string, a number or a boolean");
                return None;
            }
        };
        value.map_err(|malformed| reader.fault(element.at, malformed.to_string())).ok()
    }

    fn schema(_schemas: &mut Schemas) -> Value {
        let mut schema = VariableValue::text_schema();
        schema["type"] = json!(["string", "number", "boolean"]);
        schema
    }
}
