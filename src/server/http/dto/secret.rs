//! A secret without its value, which is in no answer.

use serde::Serialize;
use utoipa::ToSchema;

use super::values::Time;
use accounts::secrets::Secret;

/// A secret, without its value.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Secret)]
pub struct SecretView<'a> {
    /// The variable in which steps find it.
    #[schema(example = "EXAMPLE_PASSWORD")]
    name: &'a str,
    /// For people.
    #[schema(example = "For trying the API")]
    description: &'a str,
    /// Null for a secret of the organization, which all its pipelines get.
    #[schema(example = "web")]
    pipeline_id: Option<&'a str>,
    /// Rises with every change.
    #[schema(example = 1)]
    version: u64,
    /// When it was created.
    created_at: Time,
    /// When it last changed.
    updated_at: Time,
}

impl<'a> From<&'a Secret> for SecretView<'a> {
    fn from(secret: &'a Secret) -> Self {
        Self {
            name: secret.name.as_str(),
            description: secret.description.as_str(),
            pipeline_id: secret.pipeline.as_ref().map(|pipeline| pipeline.as_str()),
            version: secret.version,
            created_at: Time(secret.created_at),
            updated_at: Time(secret.updated_at),
        }
    }
}
