//! The operations on step registries.

use super::operation::Operation;
use crate::http::codes::Code;
use crate::http::dto::{RegistryStepView, RegistryView, SyncView};
use crate::http::paging::SlicePagination;
use crate::http::resources::pipelines::ResumeForm;
use crate::http::resources::step_registries::RegistryForm;

const REGISTRIES: &str = "Step registries";

pub fn list_registries() -> Operation {
    Operation::api(REGISTRIES, "listStepRegistries", "List Step Registries", "Oldest first.")
        .slice()
        .answers_list::<RegistryView<'_>, SlicePagination>("The step registries")
}

pub fn create_registry() -> Operation {
    Operation::api(
        REGISTRIES,
        "createStepRegistry",
        "Create Step Registry",
        "With its steps, or with their repository, which is fetched before the answer. If that fails the registry is created \
         all the same, with the status `failed` and the reason in `error`.",
    )
    .body::<RegistryForm>()
    .writes()
    .answers::<RegistryView<'_>>(201, "The step registry", &["Location", "ETag"])
    .fails(&[Code::RegistryExists, Code::RegistryLimitReached])
}

pub fn get_registry() -> Operation {
    Operation::api(REGISTRIES, "getStepRegistry", "Get Step Registry", "With its status, without its steps.")
        .header("If-None-Match", "An earlier `ETag`: 304 if nothing has changed since")
        .answers::<RegistryView<'_>>(200, "The step registry", &["ETag"])
        .answers_nothing(304, "It has not changed", &["ETag"])
        .fails(&[Code::RegistryNotFound])
}

pub fn update_registry() -> Operation {
    Operation::api(
        REGISTRIES,
        "updateStepRegistry",
        "Update Step Registry",
        "Replaces all of it. Another repository is fetched before the answer. Nothing changes if that fails, or if pipelines \
         would lose a step they use.",
    )
    .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
    .body::<RegistryForm>()
    .writes()
    .answers::<RegistryView<'_>>(200, "The step registry", &["ETag"])
    .fails(&[
        Code::RegistryNotFound,
        Code::RegistryExists,
        Code::RegistryInUse,
        Code::SyncFailed,
        Code::PreconditionFailed,
    ])
}

pub fn delete_registry() -> Operation {
    Operation::api(
        REGISTRIES,
        "deleteStepRegistry",
        "Delete Step Registry",
        "Refused while pipelines use it: `usedBy` names them. Deployments keep their steps.",
    )
    .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
    .writes()
    .answers_nothing(204, "Deleted", &[])
    .fails(&[Code::RegistryNotFound, Code::RegistryInUse, Code::PreconditionFailed])
}

pub fn sync_registry() -> Operation {
    Operation::api(
        REGISTRIES,
        "syncStepRegistry",
        "Sync Step Registry",
        "Fetches the repository and applies all its steps or none. A step whose content has changed under the same version is \
         listed as `changed`. If a file has faults, or pipelines would lose a step they use, the steps stay as they were.",
    )
    .body::<ResumeForm>()
    .writes()
    .answers::<SyncView<'_>>(200, "The changes", &[])
    .fails(&[
        Code::RegistryNotFound,
        Code::RegistryHasNoRepository,
        Code::SyncInProgress,
        Code::SyncFailed,
        Code::RegistryInUse,
        Code::PreconditionFailed,
    ])
}

pub fn list_registry_steps() -> Operation {
    Operation::api(REGISTRIES, "listRegistrySteps", "List Steps of a Registry", "By name and version.")
        .slice()
        .answers_list::<RegistryStepView<'_>, SlicePagination>("The steps")
        .fails(&[Code::RegistryNotFound])
}
