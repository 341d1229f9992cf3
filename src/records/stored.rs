//! How values are stored: each has a form, which serde encodes and decodes. The forms are separate from the values, so
//! that a change to a value's type cannot silently change the bytes on disk.
//!
//! This file has the forms of shared types; the others are next to their values.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

pub use domain::Malformed;
use domain::{
    AnalysisId, ApprovalId, CommitId, Context, DeliveryId, DeploymentId, Description, Email, EnvironmentKey, EventType,
    EventValue, IdSeed, Identifier, Initiator, LabelValue, Origin, Person, PipelineKey, Priority, RegistryId,
    RequestRef, Role, SessionId, Tick, Ticket, Timestamp, TokenId, UserId, VariableName, VariableValue,
};
use store::StoreError;
use store::record::{self, Record, RecordError};

/// A value with a stored form.
pub trait Stored: Sized {
    /// Borrows text and bytes from the value when writing, or from the bytes when reading.
    type Form<'a>;

    fn to_form(&self) -> Self::Form<'_>;
    fn from_form(form: Self::Form<'_>) -> Result<Self, Malformed>;
}

/// Decodes a record and converts it to a value.
pub fn read<'a, T: Stored<Form<'a>: Record<'a> + Deserialize<'a>>>(bytes: &'a [u8]) -> Result<T, RecordError> {
    T::from_form(record::decode::<T::Form<'a>>(bytes)?).map_err(record::invalid::<T::Form<'a>>)
}

/// A struct and its form, with the fields in stored order. Fields after `not stored` are read as the given values.
///
/// With `later {}`, the form is one that can have later fields ([`Growing`](crate::later::Growing)). A new optional
/// field of the struct is one line there, with a number that the form never used before: `later { note: Option<Context>
/// = 1 }`.
#[macro_export]
macro_rules! stored {
    (
        $(#[$doc:meta])*
        struct $form:ident of $value:ident { $($field:ident: $type:ty),* $(,)? }
        later { $($late:ident: $late_type:ty = $number:literal),* $(,)? }
    ) => {
        $crate::stored::stored_form!($(#[$doc])* struct $form { $($field: $type),* });

        impl $crate::stored::Stored for $value {
            type Form<'a> = $crate::later::Growing<$form<'a>>;

            fn to_form(&self) -> Self::Form<'_> {
                let Self { $($field,)* $($late,)* } = self;
                let form = $form { $($field: $crate::stored::Stored::to_form($field)),* };
                $crate::later::Growing::from(form)
                    $(.with($number, $crate::stored::Stored::to_form($late)))*
            }

            fn from_form(form: Self::Form<'_>) -> Result<Self, $crate::stored::Malformed> {
                Ok(Self {
                    $($late: <$late_type as $crate::stored::Stored>::from_form(form.later.get($number)?)?,)*
                    $($field: <$type as $crate::stored::Stored>::from_form(form.form.$field)?,)*
                })
            }
        }
    };
    (
        $(#[$doc:meta])*
        struct $form:ident of $value:ident { $($field:ident: $type:ty),* $(,)? }
        $(not stored { $($absent:ident: $read_as:expr),* })?
    ) => {
        $crate::stored::stored_form!($(#[$doc])* struct $form { $($field: $type),* });

        impl $crate::stored::Stored for $value {
            type Form<'a> = $form<'a>;

            fn to_form(&self) -> $form<'_> {
                // Lists each field by name, so that a new one cannot be forgotten.
                let Self { $($field,)* $($($absent: _,)*)? } = self;
                $form { $($field: $crate::stored::Stored::to_form($field)),* }
            }

            fn from_form(form: $form<'_>) -> Result<Self, $crate::stored::Malformed> {
                Ok(Self {
                    $($field: <$type as $crate::stored::Stored>::from_form(form.$field)?,)*
                    $($($absent: $read_as,)*)?
                })
            }
        }
    };
}

/// Declares only a form, without a value.
#[macro_export]
macro_rules! stored_form {
    ($(#[$doc:meta])* struct $form:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(serde::Serialize, serde::Deserialize)]
        pub struct $form<'a> {
            $(#[serde(borrow)] pub $field: <$type as $crate::stored::Stored>::Form<'a>),*
        }
    };
}

/// An enum and its form, with a lifetime if its variants have values. Postcard stores the position in the list, so
/// variants may only be added at the end.
#[macro_export]
macro_rules! stored_enum {
    ($form:ident$(<$life:lifetime>)? of $value:ident {
        $($variant:ident $(($name:ident: $type:ty))? $({ $($field:ident: $field_type:ty),* })?),* $(,)?
    }) => {
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $form$(<$life>)? {
            $($variant
                $((#[serde(borrow)] <$type as $crate::stored::Stored>::Form<'a>))?
                $({ $(#[serde(borrow)] $field: <$field_type as $crate::stored::Stored>::Form<'a>),* })?
            ),*
        }

        impl $crate::stored::Stored for $value {
            type Form<'a> = $form$(<$life>)?;

            fn to_form(&self) -> Self::Form<'_> {
                match self {
                    $($value::$variant $(($name))? $({ $($field),* })? => $form::$variant
                        $(($crate::stored::Stored::to_form($name)))?
                        $({ $($field: $crate::stored::Stored::to_form($field)),* })?
                    ),*
                }
            }

            fn from_form(form: Self::Form<'_>) -> Result<Self, $crate::stored::Malformed> {
                Ok(match form {
                    $($form::$variant $(($name))? $({ $($field),* })? => $value::$variant
                        $((<$type as $crate::stored::Stored>::from_form($name)?))?
                        $({ $($field: <$field_type as $crate::stored::Stored>::from_form($field)?),* })?
                    ),*
                })
            }
        }
    };
}

/// Types that are stored as another type, with the functions that write and read them.
#[macro_export]
macro_rules! stored_as {
    ($form:ty: |$value:ident| $write:expr, |$stored:ident| $read:expr; $($type:ty),* $(,)?) => {
        $(impl $crate::stored::Stored for $type {
            type Form<'a> = $form;

            fn to_form(&self) -> Self::Form<'_> {
                let $value = self;
                $write
            }

            fn from_form($stored: Self::Form<'_>) -> Result<Self, $crate::stored::Malformed> {
                $read
            }
        })*
    };
}
pub use {stored, stored_as, stored_enum, stored_form};

stored_as!(Self: |value| *value, |value| Ok(value); bool, u16, u32, u64, i32, f64, [u8; 4], [u8; 16], [u8; 32]);
stored_as!(i64: |time| time.as_millis(), |millis| Ok(Self::from_millis(millis)); Timestamp);
stored_as!(i64: |tick| tick.0, |millis| Ok(Self(millis)); Tick);
stored_as!(u64: |ticket| ticket.0, |number| Ok(Self(number)); Ticket);
stored_as!(i8: |priority| priority.get(), |value| Self::new(value.into()); Priority);
stored_as!([u8; 12]: |seed| seed.0, |bytes| Ok(Self(bytes)); IdSeed);
stored_as!(
    [u8; 12]: |id| id.0.0, |seed| Ok(Self(IdSeed(seed)));
    AnalysisId, ApprovalId, DeliveryId, DeploymentId, RegistryId, TokenId, UserId,
);
stored_as!(
    &'a str: |text| text.as_str(), |text| Self::parse(text);
    CommitId, Context, Description, Email, Identifier, LabelValue, VariableName, VariableValue,
);
stored_as!(&'a str: |text| text, |text| Ok(Self::from(text)); Arc<str>, String);
stored_as!(&'a [u8]: |bytes| bytes, |bytes| Ok(Self::from(bytes)); Arc<[u8]>);
stored_as!(
    // The position in the list of event types, which only grows.
    u16: |event_type| *event_type as u16,
    |position| {
        let found = Self::ALL.get(usize::from(position)).copied();
        found.ok_or(Malformed("is an event type of a newer version; start that one"))
    };
    EventType,
);

impl<T: Stored> Stored for Option<T> {
    type Form<'a> = Option<T::Form<'a>>;

    fn to_form(&self) -> Self::Form<'_> {
        self.as_ref().map(T::to_form)
    }

    fn from_form(form: Self::Form<'_>) -> Result<Self, Malformed> {
        form.map(T::from_form).transpose()
    }
}

impl<T: Stored> Stored for Vec<T> {
    type Form<'a> = Vec<T::Form<'a>>;

    fn to_form(&self) -> Self::Form<'_> {
        self.iter().map(T::to_form).collect()
    }

    fn from_form(form: Self::Form<'_>) -> Result<Self, Malformed> {
        form.into_iter().map(T::from_form).collect()
    }
}

impl<K: Stored + Ord, V: Stored> Stored for BTreeMap<K, V>
where
    for<'a> K::Form<'a>: Ord,
{
    type Form<'a> = BTreeMap<K::Form<'a>, V::Form<'a>>;

    fn to_form(&self) -> Self::Form<'_> {
        self.iter().map(|(key, value)| (key.to_form(), value.to_form())).collect()
    }

    fn from_form(form: Self::Form<'_>) -> Result<Self, Malformed> {
        form.into_iter().map(<(K, V)>::from_form).collect()
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    type Form<'a> = (A::Form<'a>, B::Form<'a>);

    fn to_form(&self) -> Self::Form<'_> {
        (self.0.to_form(), self.1.to_form())
    }

    fn from_form((first, second): Self::Form<'_>) -> Result<Self, Malformed> {
        Ok((A::from_form(first)?, B::from_form(second)?))
    }
}

/// Stored like the value itself.
impl<T: Stored> Stored for Arc<T> {
    type Form<'a> = T::Form<'a>;

    fn to_form(&self) -> Self::Form<'_> {
        (**self).to_form()
    }

    fn from_form(form: Self::Form<'_>) -> Result<Self, Malformed> {
        T::from_form(form).map(Arc::new)
    }
}

impl<T: Stored> Stored for Box<T> {
    type Form<'a> = Box<T::Form<'a>>;

    fn to_form(&self) -> Self::Form<'_> {
        Box::new((**self).to_form())
    }

    fn from_form(form: Self::Form<'_>) -> Result<Self, Malformed> {
        T::from_form(*form).map(Box::new)
    }
}

stored! { struct PersonV1 of Person { id: UserId, name: Arc<str> } }
stored! { struct ViaV1 of RequestRef { token: TokenId, request: Arc<str> } }
stored! { struct InitiatorV1 of Initiator { person: Person, via: Option<RequestRef> } }
stored! { struct PipelineKeyV1 of PipelineKey { organization: Identifier, pipeline: Identifier } }
stored! { struct EnvironmentKeyV1 of EnvironmentKey { pipeline: PipelineKey, name: Identifier } }
stored! { struct SessionIdV1 of SessionId { seed: IdSeed, origin: Origin } }
stored_enum!(OriginV1<'a> of Origin { Granted(token: u64), Queued(ticket: Ticket) });
stored_enum!(DatumV1<'a> of EventValue { Text(text: Arc<str>), Number(number: u64), Flag(flag: bool) });
stored_enum!(RoleV1 of Role { Viewer, Developer, Maintainer, Admin });

/// How a file's current declaration differs from its last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    Created,
    Changed,
    Removed,
    /// No longer declared, and already deleted by someone: only the mark of the old declaration is left.
    Gone,
}

/// The differences by key. `before` and `declared` have declarations in comparable form. A file that declares an object
/// created through the API takes over that object.
pub fn differences<K: Ord, D: PartialEq>(
    mut before: BTreeMap<K, D>,
    declared: impl IntoIterator<Item = (K, D)>,
    exists: impl Fn(&K) -> Result<bool, StoreError>,
) -> Result<BTreeMap<K, Difference>, StoreError> {
    let mut differences = BTreeMap::new();
    for (key, declaration) in declared {
        if before.remove(&key).is_some_and(|before| before == declaration) {
            continue;
        }
        let difference = if exists(&key)? { Difference::Changed } else { Difference::Created };
        differences.insert(key, difference);
    }
    for key in before.into_keys() {
        let difference = if exists(&key)? { Difference::Removed } else { Difference::Gone };
        differences.insert(key, difference);
    }
    Ok(differences)
}
