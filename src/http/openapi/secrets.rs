//! The operations on secrets. No answer has a value.

use super::operation::Operation;
use crate::domain::Identifier;
use crate::http::codes::Code;
use crate::http::dto::SecretView;
use crate::http::paging::SlicePagination;
use crate::http::resources::secrets::{SecretChangeForm, SecretForm};

const SECRETS: &str = "Secrets";

pub fn list_secrets() -> Operation {
    Operation::api(
        SECRETS,
        "listSecrets",
        "List Secrets",
        "The secrets of the organization and of its pipelines, by pipeline and name, without their values.",
    )
    .query::<Identifier>("pipelineId", "Only secrets of this pipeline")
    .slice()
    .answers_list::<SecretView<'_>, SlicePagination>("The secrets")
}

pub fn create_secret() -> Operation {
    Operation::api(
        SECRETS,
        "createSecret",
        "Create Secret",
        "Steps get it as a variable, from the next stage that starts. A name is unique in its scope: the organization, or one \
         pipeline.",
    )
    .body::<SecretForm>()
    .writes()
    .answers::<SecretView<'_>>(201, "The secret, without its value", &["Location", "ETag"])
    .fails(&[Code::SecretExists, Code::SecretLimitReached])
}

pub fn get_secret() -> Operation {
    in_scope(Operation::api(SECRETS, "getSecret", "Get Secret", "A secret without its value."))
        .header("If-None-Match", "An earlier `ETag`: 304 if nothing has changed since")
        .answers::<SecretView<'_>>(200, "The secret", &["ETag"])
        .answers_nothing(304, "It has not changed", &["ETag"])
}

pub fn update_secret() -> Operation {
    in_scope(Operation::api(SECRETS, "updateSecret", "Update Secret", "Changes the value or the description."))
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .body::<SecretChangeForm>()
        .writes()
        .answers::<SecretView<'_>>(200, "The secret, without its value", &["ETag"])
        .fails(&[Code::PreconditionFailed])
}

pub fn delete_secret() -> Operation {
    in_scope(Operation::api(SECRETS, "deleteSecret", "Delete Secret", "Steps that have started keep it."))
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .writes()
        .answers_nothing(204, "Deleted", &[])
        .fails(&[Code::PreconditionFailed])
}

fn in_scope(operation: Operation) -> Operation {
    operation
        .query::<Identifier>("pipelineId", "Its pipeline; if left out, a secret of the organization")
        .fails(&[Code::SecretNotFound])
}
