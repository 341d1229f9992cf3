//! The operations on step registries.

use super::operation::Operation;
use crate::http::codes::Code;
use crate::http::resources::pipelines::ResumeForm;
use crate::http::resources::step_registries::RegistryForm;
use crate::http::resources::step_registries::{RegistryStepView, RegistryView, SyncView};

const REGISTRIES: &str = "Step registries";

pub fn list_registries() -> Operation {
    Operation::api(REGISTRIES, "listStepRegistries")
        .about("Oldest first.")
        .lists::<RegistryView<'_>>("The step registries")
}

pub fn create_registry() -> Operation {
    Operation::api(REGISTRIES, "createStepRegistry")
        .about(
            "With its steps, or with their repository, which is fetched before the answer. If that fails the registry \
             is created all the same, with the status `failed` and the reason in `error`.",
        )
        .body::<RegistryForm>()
        .answers::<RegistryView<'_>>(201, "The step registry", &["Location", "ETag"])
        .fails(&[Code::RegistryExists, Code::RegistryLimitReached])
}

pub fn get_registry() -> Operation {
    Operation::api(REGISTRIES, "getStepRegistry")
        .about("With its status, without its steps.")
        .answers_unless_known::<RegistryView<'_>>("The step registry")
        .fails(&[Code::RegistryNotFound])
}

pub fn update_registry() -> Operation {
    Operation::api(REGISTRIES, "updateStepRegistry")
        .about(
            "Replaces all of it. Another repository is fetched before the answer. Nothing changes if that fails, or if \
             pipelines would lose a step they use.",
        )
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .body::<RegistryForm>()
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
    Operation::api(REGISTRIES, "deleteStepRegistry")
        .about("Refused while pipelines use it: `usedBy` names them. Deployments keep their steps.")
        .header("If-Match", "The `ETag` it was read with: 412 if it has changed since")
        .deletes("Deleted")
        .fails(&[Code::RegistryNotFound, Code::RegistryInUse, Code::PreconditionFailed])
}

pub fn sync_registry() -> Operation {
    Operation::api(REGISTRIES, "syncStepRegistry")
        .about(
            "Fetches the repository and applies all its steps or none. A step whose content has changed under the same \
             version is listed as `changed`. If a file has faults, or pipelines would lose a step they use, the steps \
             stay as they were.",
        )
        .body::<ResumeForm>()
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
    Operation::api(REGISTRIES, "listRegistrySteps")
        .titled("List Steps of a Registry")
        .about("By name and version.")
        .lists::<RegistryStepView<'_>>("The steps")
        .fails(&[Code::RegistryNotFound])
}
