//! The operations on secrets. No answer has a value.

use super::operation::Operation;
use crate::http::codes::Code;
use crate::http::resources::secrets::SecretView;
use crate::http::resources::secrets::{SecretChangeForm, SecretForm};
use domain::Identifier;

const SECRETS: &str = "Secrets";

pub fn list_secrets() -> Operation {
    Operation::api(SECRETS, "listSecrets")
        .about("The secrets of the organization and of its pipelines, by pipeline and name, without their values.")
        .query::<Identifier>("pipelineId", "Only secrets of this pipeline")
        .lists::<SecretView<'_>>("The secrets")
}

pub fn create_secret() -> Operation {
    Operation::api(SECRETS, "createSecret")
        .about(
            "Steps get it as a variable, from the next stage that starts. A name is unique in its scope: the \
             organization, or one pipeline.",
        )
        .body::<SecretForm>()
        .answers::<SecretView<'_>>(201, "The secret, without its value", &["Location", "ETag"])
        .fails(&[Code::SecretExists, Code::SecretLimitReached])
}

pub fn get_secret() -> Operation {
    in_scope(Operation::api(SECRETS, "getSecret").about("A secret without its value."))
        .answers_unless_known::<SecretView<'_>>("The secret")
}

pub fn update_secret() -> Operation {
    in_scope(Operation::api(SECRETS, "updateSecret").about("Changes the value or the description."))
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .body::<SecretChangeForm>()
        .answers::<SecretView<'_>>(200, "The secret, without its value", &["ETag"])
        .fails(&[Code::PreconditionFailed])
}

pub fn delete_secret() -> Operation {
    in_scope(Operation::api(SECRETS, "deleteSecret").about("Steps that have started keep it."))
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .deletes("Deleted")
        .fails(&[Code::PreconditionFailed])
}

fn in_scope(operation: Operation) -> Operation {
    operation
        .query::<Identifier>("pipelineId", "Its pipeline; if left out, a secret of the organization")
        .fails(&[Code::SecretNotFound])
}
