//! The handlers, one file per resource: each authorises, parses, asks and renders. Routes are defined elsewhere.

pub mod analyses;
pub mod approvals;
pub mod audit;
pub mod dashboard;
pub mod deployments;
pub mod environments;
pub mod events;
pub mod explorer;
pub mod logs;
pub mod members;
pub mod operator;
pub mod pipelines;
pub mod secrets;
pub mod sessions;
pub mod sign_in;
pub mod single_sign_on;
pub mod step_registries;
pub mod token_exchange;
pub mod tokens;
pub mod utilisation;
pub mod webhooks;
