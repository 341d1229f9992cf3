//! The handlers, one file per resource: each authorises, parses, asks and renders. They know nothing of routes.

pub mod analyses;
pub mod approvals;
pub mod audit;
pub mod backups;
pub mod dashboard;
pub mod deployments;
pub mod environment_list;
pub mod environments;
pub mod events;
pub mod explorer;
pub mod invitations;
pub mod logs;
pub mod members;
pub mod operator;
pub mod pipelines;
pub mod secrets;
pub mod session_list;
pub mod sessions;
pub mod signing_in;
pub mod single_sign_on;
pub mod step_registries;
pub mod token_exchange;
pub mod tokens;
pub mod utilisation;
pub mod webhooks;
pub mod whoami;
