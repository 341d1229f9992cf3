//! The operations on step registries.

use serde_json::{Value, json};

use super::IDENTIFIER_PATTERN;
use super::bodies::{CONTEXT_PATTERN, VARIABLE_PATTERN};
use super::operation::Operation;
use super::pipeline_bodies::{http_call, input_value, run};
use crate::domain::{INPUTS_MAX, InputKind};
use crate::http::codes::Code;
use crate::registries::{REGISTRY_BYTES_MAX, STEPS_MAX};

const REGISTRIES: &str = "Step registries";
const REGISTRY_PATTERN: &str = "^reg_[0-9a-f]{24}$";
const GIT_URL_PATTERN: &str = "^(https://[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?/[!-~]+\
                               |ssh://([A-Za-z0-9][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?/[!-~]+\
                               |[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[!-,.-9;-~][!-~]*|file:///[!-~]+)$";

pub fn request_bodies() -> [(&'static str, Value); 2] {
    [("StepRegistryRequest", registry()), ("RegistryStepRequest", step())]
}

fn registry() -> Value {
    let name = json!({ "type": "string", "pattern": IDENTIFIER_PATTERN, "examples": ["tools"],
                       "description": "Unique in the organization; pipelines know the registry by it." });
    let git = json!({
        "type": "object", "additionalProperties": false, "required": ["url", "ref"],
        "description": "A repository that has one `steps/*.toml` for each step.",
        "properties": {
            "url": { "type": "string", "maxLength": 2048, "pattern": GIT_URL_PATTERN,
                     "examples": ["https://git.example/acme/steps.git"],
                     "description": "https or ssh; `file://` only if the operator allows it (`git.allow_file_urls`). Without \
                                     a user or password." },
            "ref": { "type": "string", "minLength": 1, "maxLength": 128, "examples": ["main"],
                     "description": "A branch or a tag, by its short name." },
            "credential": { "type": ["string", "null"], "pattern": VARIABLE_PATTERN, "examples": ["STEPS_TOKEN"],
                            "description": "The name of a secret of the organization: a token that lets us in, for https \
                                            URLs. Read at each sync." },
        },
    });
    let steps = json!({
        "type": "array", "maxItems": STEPS_MAX, "items": { "$ref": "#/components/schemas/RegistryStepRequest" },
        "description": format!("Their texts have at most {REGISTRY_BYTES_MAX} bytes together."),
        "examples": [[{ "name": "greet", "version": "1", "inputs": { "WHOM": { "type": "string", "default": "world" } },
                        "run": ["sh", "-c", "echo hello $WHOM"] }]],
    });
    let one = |source: &str, schema: Value| {
        json!({ "type": "object", "additionalProperties": false, "required": ["name", source],
                "properties": { "name": name, source: schema } })
    };
    json!({ "oneOf": [one("steps", steps), one("git", git)] })
}

fn step() -> Value {
    let text = |description: &str, example: &str| json!({ "type": "string", "pattern": IDENTIFIER_PATTERN, "description": description, "examples": [example] });
    let input = json!({
        "type": "object", "additionalProperties": false, "required": ["type"],
        "properties": {
            "type": { "enum": InputKind::ALL.map(InputKind::as_str) },
            "required": { "type": "boolean", "default": false },
            "default": { "oneOf": [input_value(), { "type": "null" }], "description": "Of its type. Not for one that is required." },
        },
    });
    let one = |action: &str, schema: Value| {
        json!({
            "type": "object", "additionalProperties": false, "required": ["name", "version", action],
            "properties": {
                "name": text("With its version unique in the registry.", "build"),
                "version": text("Whatever tells one from another.", "1.2.0"),
                "description": { "type": ["string", "null"], "maxLength": 1024, "pattern": CONTEXT_PATTERN },
                "inputs": { "type": "object", "maxProperties": INPUTS_MAX, "propertyNames": { "pattern": VARIABLE_PATTERN },
                            "additionalProperties": input,
                            "description": "They reach the step as variables of their names, over those of its pipeline." },
                action: schema,
            },
        })
    };
    json!({ "oneOf": [one("run", run()), one("http", http_call())] })
}

pub fn list_registries() -> Operation {
    Operation::api(REGISTRIES, "listStepRegistries", "List Step Registries", "Oldest first.").slice().answers_list(
        "The step registries",
        "StepRegistry",
        "Pagination",
    )
}

pub fn create_registry() -> Operation {
    Operation::api(
        REGISTRIES,
        "createStepRegistry",
        "Create Step Registry",
        "With its steps, or with the repository that has them, which is fetched before the answer. One that cannot be had \
         does not stand in the way: the registry is there with the status `failed`, and `error` says why.",
    )
    .body("StepRegistryRequest", true)
    .writes()
    .answers(201, "The step registry", "StepRegistry", &["Location", "ETag"])
    .fails(&[Code::RegistryExists, Code::RegistryLimitReached])
}

pub fn get_registry() -> Operation {
    Operation::api(REGISTRIES, "getStepRegistry", "Get Step Registry", "How it stands, without its steps.")
        .header("If-None-Match", "An `ETag` of before: 304 if nothing has changed since")
        .answers(200, "The step registry", "StepRegistry", &["ETag"])
        .answers_nothing(304, "It has not changed", &["ETag"])
        .fails(&[Code::RegistryNotFound])
}

pub fn update_registry() -> Operation {
    Operation::api(
        REGISTRIES,
        "updateStepRegistry",
        "Update Step Registry",
        "Replaces all of it. Another repository is fetched before the answer, and one that cannot be had leaves everything \
         as it is; so does a change that would take from pipelines what they use.",
    )
    .header("If-Match", "The `ETag` it was read with: only if it is still that")
    .body("StepRegistryRequest", true)
    .writes()
    .answers(200, "The step registry", "StepRegistry", &["ETag"])
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
        "Not while pipelines use it: `usedBy` names them. Deployments keep what they run of it.",
    )
    .header("If-Match", "The `ETag` it was read with: only if it is still that")
    .writes()
    .answers_nothing(204, "Deleted", &[])
    .fails(&[Code::RegistryNotFound, Code::RegistryInUse, Code::PreconditionFailed])
}

pub fn sync_registry() -> Operation {
    Operation::api(
        REGISTRIES,
        "syncStepRegistry",
        "Sync Step Registry",
        "Fetches the repository and takes over what it has, all of it or nothing. A step whose content has changed under the \
         same version is told as `changed`. What pipelines use is not taken from them: then, and where a file is wrong, the \
         steps stay as they were.",
    )
    .body("ResumeRequest", false)
    .writes()
    .answers(200, "What has changed", "StepRegistrySync", &[])
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
        .answers_list("The steps", "RegistryStep", "Pagination")
        .fails(&[Code::RegistryNotFound])
}

pub fn path_parameter() -> (&'static str, Value, &'static str) {
    let schema = json!({ "type": "string", "pattern": REGISTRY_PATTERN });
    ("The step registry's id", schema, "reg_0199f3c2a4b07f3e9d2c5a1b")
}
