//! Answers as they are written, in camelCase. They borrow from the domain's types, so that an answer is written in one
//! pass.

mod analysis;
mod approval;
mod deployment;
mod environment;
mod event;
mod member;
mod pipeline;
mod registry;
mod secret;
mod session;
mod statuses;
mod token;
mod webhook;

pub use analysis::{AnalysisView, FixView};
pub use approval::ApprovalView;
pub use deployment::{DeploymentBrief, DeploymentView};
pub use environment::{EnvironmentListItem, EnvironmentView, LockView};
pub use event::EventView;
pub use member::MemberView;
pub use pipeline::PipelineView;
pub use registry::{RegistryStepView, RegistryView, SyncView};
pub use secret::SecretView;
pub use session::{EndedByView, ForceClaimView, SessionView, WaiterView, end_reason};
pub use token::{OpenTokenView, TokenView};
pub use webhook::{
    AttemptView, DeliveryView, KeptWebhookView, OpenWebhookView, WebhookView, webhook_body, webhook_test_body,
};

use std::fmt::Display;

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use crate::domain::{Person, Timestamp};

/// A value that is written as its text.
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

impl Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0.as_millis()) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => f.write_str("9999-12-30T22:00:00.999Z"),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = User)]
pub struct UserView<'a> {
    #[schema(value_type = String, example = "usr_0199f3c2a4b07f3e9d2c5a1b")]
    user_id: Text<crate::domain::UserId>,
    #[schema(example = "ana")]
    name: &'a str,
}

impl<'a> From<&'a Person> for UserView<'a> {
    fn from(person: &'a Person) -> Self {
        Self { user_id: Text(person.id), name: &person.name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_exactly_three_decimals_and_a_z() {
        assert_eq!(Time(Timestamp::from_millis(1_794_735_000_123)).to_string(), "2026-11-15T09:30:00.123Z");
        assert_eq!(Time(Timestamp::from_millis(0)).to_string(), "1970-01-01T00:00:00.000Z");
    }
}
