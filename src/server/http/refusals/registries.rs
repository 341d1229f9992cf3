//! Rejected requests on step registries.

use crate::http::codes::Code;
use crate::http::problem::{FieldError, Problem};
use delivery::registries::{FileFault, Refusal, SyncFailure};
use domain::Identifier;

/// Long enough to fetch most repositories.
const SYNCING_RETRY_SECONDS: u64 = 2;

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Store(error) => error.into(),
            Refusal::NotFound => Problem::new(
                Code::RegistryNotFound,
                "the organization has no such step registry; list them to see their ids",
            ),
            Refusal::Exists => Problem::new(
                Code::RegistryExists,
                "the organization has a step registry with this name; change it with PUT, or choose another name",
            ),
            Refusal::TooMany => Problem::new(Code::RegistryLimitReached, format!("{refusal}; delete unused ones")),
            Refusal::Changed => Problem::new(
                Code::PreconditionFailed,
                "the step registry has changed since the request began, or does not match `If-Match`; read it again and send its `ETag`",
            ),
            Refusal::InUse { used_by } => in_use(&used_by),
            Refusal::SyncInProgress => Problem::new(
                Code::SyncInProgress,
                "the step registry is being synced; poll it until its `status` is no longer `syncing`",
            )
            .retry_after(SYNCING_RETRY_SECONDS),
            Refusal::NoRepository => {
                Problem::new(Code::RegistryHasNoRepository, Code::RegistryHasNoRepository.meaning())
            }
            Refusal::SyncFailed(failure) => sync_failed(&failure),
        }
    }
}

fn in_use(used_by: &[Identifier]) -> Problem {
    let names: Vec<_> = used_by.iter().map(Identifier::as_str).collect();
    let detail =
        format!("the change would break pipelines that use the registry: {}; change those first", names.join(", "));
    Problem::new(Code::RegistryInUse, detail).with("usedBy", names)
}

fn sync_failed(failure: &SyncFailure) -> Problem {
    let fault = |fault: &FileFault| FieldError { field: fault.file.clone(), message: fault.message.clone() };
    let errors: Vec<_> = failure.faults.iter().map(fault).collect();
    let detail = format!("{}; the steps are unchanged", failure.message);
    Problem::new(Code::SyncFailed, detail).with("errors", errors)
}
