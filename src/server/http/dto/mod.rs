//! Responses in JSON with camelCase names. Views borrow from the domain's types, so that responses are written in one
//! pass. A view that only one resource uses is next to its handlers.

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
pub use written::Written;
