//! Responses in JSON with camelCase names. Views borrow from the domain's types, so that responses are written in one
//! pass. A view that only one resource uses is next to its handlers.

/// Defines a view: each field with its description and its value in `new`. `as` names the schema; a `let` before the
/// fields computes a value that several fields use. A field without a value takes the argument or the `let` of the same
/// name.
macro_rules! view {
    (
        $(#[$doc:meta])*
        $vis:vis struct $view:ident $(<$lifetime:lifetime>)? $(as $schema:ident)?
        of ($($argument:ident: $argument_type:ty),*)
        $(let $pattern:pat = $init:expr;)*
        {
            $($(#[$meta:meta])* $field:ident: $type:ty $(= $value:expr)?),* $(,)?
        }
    ) => {
        $(#[$doc])*
        #[derive(serde::Serialize, utoipa::ToSchema)]
        #[serde(rename_all = "camelCase")]
        $(#[schema(as = $schema)])?
        $vis struct $view $(<$lifetime>)? {
            $($(#[$meta])* $field: $type),*
        }

        impl $(<$lifetime>)? $view $(<$lifetime>)? {
            $vis fn new($($argument: $argument_type),*) -> Self {
                $(let $pattern = $init;)*
                Self { $($field $(: $value)?),* }
            }
        }
    };
}

pub(super) use view;

mod deployment;
mod environment;
mod event;
mod session;
mod values;
pub mod written;

pub use deployment::DeploymentView;
pub use environment::{EnvironmentListItem, EnvironmentView, HolderView, LockView};
pub use event::EventView;
pub use session::{EndedByView, ForceClaimView, SessionListItem, SessionView, WaiterView, end_reason};
pub use values::{InputValueView, Text, Time, UserView};
pub use written::{Named, Written};
