//! Answers as they are written, in camelCase. They borrow from the domain's types, so that an answer is written in one
//! pass. Views that only one resource has stand with its handlers.

mod deployment;
mod environment;
mod event;
mod event_data;
mod session;
mod values;
pub mod written;

pub use deployment::DeploymentView;
pub use environment::{EnvironmentListItem, EnvironmentView, HolderView, LockView};
pub use event::EventView;
pub use event_data::{EventShape, event_shapes};
pub use session::{EndedByView, ForceClaimView, SessionListItem, SessionView, WaiterView, end_reason};
pub use values::{InputValueView, Text, Time, UserView};
pub use written::Written;
