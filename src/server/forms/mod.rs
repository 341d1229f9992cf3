//! Forms: each request body or file entry, described once. A form is a struct with a type for each field. The reader of
//! JSON and TOML and the schema of the OpenAPI document are generated from it, so names and bounds are written only
//! once.
//!
//! From the bottom up: `element` (the tree of a source), `reader` and `schema`, `traits`, `types` (fields with their
//! bounds), `form!` here, then the forms themselves. JSON is parsed in `http`, TOML in `config`; this folder depends on
//! neither.

mod configuration;
mod element;
mod pipeline;
mod reader;
mod schema;
mod session;
#[cfg(test)]
mod tests;
mod traits;
mod types;

pub use configuration::{ConfigurationForm, EnvironmentName, MemberForm};
pub use element::{Content, Element, Entry, Object, Spelling, plain, shown};
#[cfg(test)]
pub use pipeline::{HttpForm, RepositoryForm, StageForm, StepForm};
pub use pipeline::{Name, PipelineForm, RegistryStepForm};
pub use reader::{FieldFault, Reader};
pub use schema::{ObjectSchema, Schemas, reference};
pub use session::{ClaimAnyForm, ClaimForm, DeployForm, ForceClaimForm, HeartbeatForm, WAIT_SECONDS_MAX, WaitSeconds};
pub use traits::{Choice, Form, ObjectForm, ToJson};
pub use types::texts;
pub use types::{Clearable, Integer, List, Map, Text, choose, example_of, id_schema, rule_schema};
pub(crate) use types::{choices, named_choices, new_texts, url_schema};

// Used by the `texts` macro.
pub use domain::Malformed;

/// Turns a struct into a form. Each field is one of
/// - `required`,
/// - `optional`: may be omitted, an `Option`; or has the default given in parentheses,
/// - `nullable`: may be omitted or null, an `Option`; or has the default given in parentheses,
/// - `flatten`: the fields of another form, in the same object.
///
/// A name after `as` creates a separate schema, which others reference; every form of the OpenAPI document has one,
/// except those that are only flattened. Comments become descriptions, with defaults appended; `#[schema(…)]` adds to
/// the schema, and on the form an example of a whole request. After the struct may follow:
/// - `one_of`: fields of which exactly one is given, each with the fields that require it;
/// - `any_of`: fields of which at least one is given;
/// - `unique`: the field that must be unique within a list, and its default;
/// - `check`: a check that involves more than one field. If a field has a fault, the check runs without the form.
#[macro_export]
macro_rules! form {
    (
        $(#[doc = $form_doc:literal])*
        $(#[schema($($form_extra:tt)*)])?
        $vis:vis struct $form:ident $(as $name:literal)? {
            $(
                $(#[doc = $doc:literal])*
                $(#[schema($($extra:tt)*)])?
                $kind:ident $(($default:expr))? $field:ident : $type:ty
            ),* $(,)?
        }
        $(one_of $([$($alternative:ident),+])+;)?
        $(any_of [$($any:ident),+];)?
        $(unique $unique:ident $(or $unique_default:path)?;)?
        $(check $check:path;)?
    ) => {
        $(#[doc = $form_doc])*
        $vis struct $form {
            $($(#[doc = $doc])* pub $field: $crate::forms::field_type!($kind $(($default))? $type),)*
        }

        impl $crate::forms::ObjectForm for $form {
            fn each_name(_found: &mut dyn FnMut(&'static str)) {
                $($crate::forms::field_names!(_found $kind $field $type);)*
            }

            fn read_fields(
                _object: &$crate::forms::Object<'_>,
                _reader: &mut $crate::forms::Reader,
            ) -> Option<Self> {
                // Reads all fields before the first `?`, so that every fault is reported.
                $(let $field = $crate::forms::field_value!(_object _reader $kind $(($default))? $field $type);)*
                $(_reader.check_one_of(_object, &[$(&[$($crate::forms::plain(stringify!($alternative))),+]),+]);)?
                $(_reader.check_any_of(_object, &[$($crate::forms::plain(stringify!($any))),+]);)?
                Some(Self { $($field: $field?),* })
            }

            $(
                fn check(
                    object: &$crate::forms::Object<'_>,
                    form: Option<&Self>,
                    reader: &mut $crate::forms::Reader,
                ) {
                    $check(object, form, reader);
                }
            )?

            fn describe(_schema: &mut $crate::forms::ObjectSchema<'_>) {
                $(
                    $crate::forms::field_schema!(
                        _schema $kind $(($default))? $field $type [$($doc)*] [$($($extra)*)?]
                    );
                )*
                $(_schema.one_of(&[$(&[$($crate::forms::plain(stringify!($alternative))),+]),+]);)?
                $(
                    let _ = [$(stringify!($any)),+];
                    _schema.extra(serde_json::json!({ "minProperties": 1 }));
                )?
                $(_schema.extra(serde_json::json!({ $($form_extra)* }));)?
            }
        }

        impl $crate::forms::Form for $form {
            fn read(
                element: &$crate::forms::Element<'_>,
                reader: &mut $crate::forms::Reader,
            ) -> Option<Self> {
                reader.form(element)
            }

            fn schema(schemas: &mut $crate::forms::Schemas) -> serde_json::Value {
                schemas.form::<Self>(&[$($name)?], &[$($form_doc),*])
            }

            $(
                fn unique_name(object: &$crate::forms::Object<'_>, _index: usize) -> Option<(&'static str, String)> {
                    let name = object.text(stringify!($unique)).map(str::to_owned);
                    $(let name = name.or_else(|| Some($unique_default(_index).to_string()));)?
                    Some((stringify!($unique), name?))
                }
            )?
        }
    };
}

#[macro_export]
macro_rules! field_type {
    (required $type:ty) => { $type };
    (flatten $type:ty) => { $type };
    (optional ($default:expr) $type:ty) => { $type };
    (nullable ($default:expr) $type:ty) => { $type };
    (optional $type:ty) => { Option<$type> };
    (nullable $type:ty) => { Option<$type> };
}

#[macro_export]
macro_rules! field_names {
    ($found:ident flatten $field:ident $type:ty) => {
        <$type as $crate::forms::ObjectForm>::each_name($found)
    };
    ($found:ident $kind:ident $field:ident $type:ty) => {
        $found($crate::forms::plain(stringify!($field)))
    };
}

#[macro_export]
macro_rules! field_value {
    ($object:ident $reader:ident flatten $field:ident $type:ty) => {
        $reader.fields::<$type>($object)
    };
    ($object:ident $reader:ident $kind:ident ($default:expr) $field:ident $type:ty) => {
        $reader
            .$kind::<$type>($object, $crate::forms::plain(stringify!($field)))
            .map(|value| value.unwrap_or_else(|| $default))
    };
    ($object:ident $reader:ident $kind:ident $field:ident $type:ty) => {
        $reader.$kind::<$type>($object, $crate::forms::plain(stringify!($field)))
    };
}

#[macro_export]
macro_rules! field_schema {
    ($schema:ident flatten $field:ident $type:ty [$($doc:literal)*] [$($extra:tt)*]) => {
        <$type as $crate::forms::ObjectForm>::describe($schema)
    };
    ($schema:ident $kind:ident ($default:expr) $field:ident $type:ty [$($doc:literal)*] [$($extra:tt)*]) => {{
        let default: $type = $default;
        let extra = serde_json::json!({ "default": $crate::forms::ToJson::to_json(&default), $($extra)* });
        $schema.$kind::<$type>($crate::forms::plain(stringify!($field)), &[$($doc),*], extra)
    }};
    ($schema:ident $kind:ident $field:ident $type:ty [$($doc:literal)*] [$($extra:tt)*]) => {
        $schema.$kind::<$type>(
            $crate::forms::plain(stringify!($field)),
            &[$($doc),*],
            serde_json::json!({ $($extra)* }),
        )
    };
}

pub use {field_names, field_schema, field_type, field_value, form};
