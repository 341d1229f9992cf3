//! Answers as they are written, in camelCase. They borrow from the domain's types, so that an answer is written in one
//! pass.

mod analysis;
mod approval;
mod audit;
mod caller;
mod cluster;
mod deployment;
mod environment;
mod event;
mod event_data;
mod ids;
mod member;
mod pipeline;
mod problem;
mod registry;
mod secret;
mod session;
mod sign_in;
mod statuses;
mod token;
mod utilisation;
mod values;
mod webhook;

pub use analysis::{AnalysisView, FixView};
pub use approval::ApprovalView;
pub use audit::AuditView;
pub use caller::CallerView;
pub use cluster::ClusterView;
pub use deployment::DeploymentView;
pub use environment::{EnvironmentListItem, EnvironmentView, HolderView, LockView};
pub use event::EventView;
pub use event_data::{EventShape, event_shapes};
pub use ids::Written;
pub use member::MemberView;
pub use pipeline::PipelineView;
pub use problem::{ProblemHolderView, ProblemView};
pub use registry::{RegistryStepView, RegistryView, SyncView};
pub use secret::SecretView;
pub use session::{EndedByView, ForceClaimView, SessionListItem, SessionView, WaiterView, end_reason};
pub use sign_in::{InvitationView, InvitedView, MethodsView, ProviderView, SignInView};
pub use token::{OpenTokenView, TokenView};
pub use utilisation::UtilisationView;
pub use values::{Time, UserView};
pub use webhook::{
    AttemptView, DeliveryView, KeptWebhookView, OpenWebhookView, WebhookView, event_filter_names, event_filter_schema,
    webhook_body, webhook_test_body,
};
