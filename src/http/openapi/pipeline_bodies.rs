//! The schemas of request bodies about pipelines. Bounds are those of the types that enforce them.

use serde_json::{Value, json};

use super::IDENTIFIER_PATTERN;
use super::bodies::{CONTEXT_PATTERN, VARIABLE_PATTERN};
use crate::domain::pipeline::{
    ARGUMENTS_MAX, BLUEPRINT_BYTES_MAX, HEADERS_MAX, STAGES_MAX, STEPS_MAX, TIMEOUT_SECONDS_DEFAULT,
    TIMEOUT_SECONDS_MAX,
};
use crate::domain::{INPUTS_MAX, VARIABLES_MAX};
use crate::pipelines::{EXPECTED_STATUSES_MAX, Provider, STATUSES};

const URL_PATTERN: &str = "^https?://[!-.0-~][!-~]*$";
const HEADER_PATTERN: &str = "^(?!([Hh][Oo][Ss][Tt]|[Cc][Oo][Nn][Tt][Ee][Nn][Tt]-[Ll][Ee][Nn][Gg][Tt][Hh]|[Tt][Rr][Aa][Nn][Ss][Ff][Ee][Rr]-\
     [Ee][Nn][Cc][Oo][Dd][Ii][Nn][Gg]|[Cc][Oo][Nn][Nn][Ee][Cc][Tt][Ii][Oo][Nn])$)[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$";
const REPOSITORY_PATTERN: &str = "^((https://|ssh://([A-Za-z0-9._~-]+@)?)[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?(/[!-~]*)?\
                                  |git@[A-Za-z0-9][A-Za-z0-9.-]*:[!-~]+|file:///[!-~]+)$";
const API_URL_PATTERN: &str = "^(https://[A-Za-z0-9][A-Za-z0-9.-]*|http://(localhost|127\\.0\\.0\\.1))(:[0-9]{1,5})?\
                               (/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?$";
const USES_PATTERN: &str =
    "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}/[A-Za-z0-9][A-Za-z0-9._-]{0,62}@[A-Za-z0-9][A-Za-z0-9._-]{0,62}$";
const BRANCH_PATTERN: &str = "^[!-,.-~][!-~]{0,127}$";

pub fn all() -> [(&'static str, Value); 5] {
    [
        ("PipelineRequest", pipeline()),
        ("StageRequest", stage()),
        ("StepRequest", step()),
        ("StopRequest", stop()),
        ("ResumeRequest", json!({ "type": "object", "additionalProperties": false, "properties": {} })),
    ]
}

fn pipeline() -> Value {
    let providers = Provider::ALL.map(Provider::as_str);
    json!({
        "type": "object",
        "additionalProperties": false,
        "description": format!("The whole pipeline: what is left out has its default. The texts of its stages and variables \
                                have at most {BLUEPRINT_BYTES_MAX} bytes together."),
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 100,
                      "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$", "description": "For people; left out: the id." },
            "slug": { "type": "string", "pattern": IDENTIFIER_PATTERN, "description": "Left out: the id." },
            "stages": {
                "type": "array", "maxItems": STAGES_MAX, "default": [],
                "items": { "$ref": "#/components/schemas/StageRequest" },
                "examples": [[{ "name": "build", "steps": [{ "run": ["echo", "hello"] }] }]],
                "description": "They run in this order. None: a deployment succeeds at once.",
            },
            "variables": {
                "type": "object", "maxProperties": VARIABLES_MAX, "propertyNames": { "pattern": VARIABLE_PATTERN },
                "additionalProperties": { "type": "string", "maxLength": 4096, "pattern": r"^[^\u0000]*$" },
                "description": "What all steps get to see; an environment's own win over them.",
            },
            "selfApproval": { "type": "boolean", "default": true,
                              "description": "Whether people may approve what they triggered themselves." },
            "repository": {
                "type": ["object", "null"], "additionalProperties": false, "required": ["provider", "url"],
                "properties": {
                    "provider": { "enum": providers },
                    "url": { "type": "string", "maxLength": 2048, "pattern": REPOSITORY_PATTERN,
                             "examples": ["https://git.example/shop.git"] },
                    "defaultBranch": { "type": "string", "pattern": BRANCH_PATTERN, "default": "main" },
                    "credential": { "type": ["string", "null"], "pattern": VARIABLE_PATTERN, "examples": ["GIT_TOKEN"],
                                    "description": "The secret, of the pipeline or the organization, with the token \
                                                    that lets Lockkeeper push branches and open pull requests." },
                    "apiUrl": { "type": ["string", "null"], "maxLength": 2048, "pattern": API_URL_PATTERN,
                                "examples": ["https://github.example/api/v3"],
                                "description": "Where a GitHub server of your own has its API; left out: \
                                                `/api/v3` of the host of `url`, or api.github.com for github.com." },
                },
            },
        },
    })
}

fn stage() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "steps"],
        "properties": {
            "name": { "type": "string", "pattern": IDENTIFIER_PATTERN, "examples": ["build"],
                      "description": "Unique in its pipeline." },
            "approval": { "enum": ["never", "always"], "default": "never",
                          "description": "`always`: each time, somebody has to approve before it starts." },
            "timeoutSeconds": { "type": "integer", "minimum": 1, "maximum": TIMEOUT_SECONDS_MAX,
                                "default": TIMEOUT_SECONDS_DEFAULT, "description": "For all its steps together." },
            "idempotent": { "type": "boolean", "default": false,
                            "description": "Whether running it again from its first step does no harm: then a stage that a \
                                            crash of the server has cut off is started again by itself." },
            "steps": { "type": "array", "minItems": 1, "maxItems": STEPS_MAX,
                       "items": { "$ref": "#/components/schemas/StepRequest" } },
        },
    })
}

fn step() -> Value {
    let name = json!({ "type": "string", "pattern": IDENTIFIER_PATTERN,
                       "description": "Unique in its stage. Left out: `step-1`, `step-2`, … by its place." });
    let one = |action: &str, schema: Value| {
        json!({ "type": "object", "additionalProperties": false, "required": [action],
                "properties": { "name": name, action: schema } })
    };
    let uses = json!({
        "type": "object", "additionalProperties": false, "required": ["uses"],
        "properties": {
            "name": name,
            "uses": { "type": "string", "pattern": USES_PATTERN, "examples": ["tools/build@1.2.0"],
                      "description": "A step of a registry: `registry/step@version`. It must be there when the pipeline is \
                                      saved, and is looked up when a deployment starts." },
            "with": { "type": "object", "maxProperties": INPUTS_MAX, "propertyNames": { "pattern": VARIABLE_PATTERN },
                      "additionalProperties": input_value(),
                      "description": "What the step is given, by the names and types of its inputs. Nothing is substituted \
                                      in it." },
        },
    });
    json!({ "oneOf": [one("run", run()), one("http", http_call()), uses] })
}

/// What an input can be.
pub fn input_value() -> Value {
    json!({ "oneOf": [{ "type": "string", "maxLength": 4096, "pattern": r"^[^\u0000]*$" },
                      { "type": "number" }, { "type": "boolean" }] })
}

pub fn run() -> Value {
    json!({
        "type": "array", "minItems": 1, "maxItems": ARGUMENTS_MAX, "examples": [["echo", "hello"]],
        "prefixItems": [{ "type": "string", "minLength": 1, "maxLength": 32_768, "pattern": r"^[^\u0000]+$" }],
        "items": { "type": "string", "maxLength": 32_768, "pattern": r"^[^\u0000]*$" },
        "description": "A program and its arguments; no shell, unless it is one. An argument has at most 32768 bytes.",
    })
}

pub fn http_call() -> Value {
    let status = json!({ "type": "integer", "minimum": STATUSES.start(), "maximum": STATUSES.end() });
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["url"],
        "description": "`url`, `body` and the values of `headers` may have `${NAME}` of a variable; `$${` is a plain `${`.",
        "properties": {
            "method": { "type": "string", "pattern": "^[A-Z]{1,16}$",
                        "description": "Left out: POST with a `body`, GET without." },
            "url": { "type": "string", "maxLength": 2048, "pattern": URL_PATTERN,
                     "examples": ["https://deploy.example/hooks/shop"] },
            "headers": {
                "type": "object", "maxProperties": HEADERS_MAX, "propertyNames": { "pattern": HEADER_PATTERN },
                "additionalProperties": { "type": "string", "pattern": r"^[\t -~]{0,4096}$" },
            },
            "body": { "type": ["string", "null"], "maxLength": 32_768, "description": "At most 32768 bytes." },
            "expectStatus": {
                "oneOf": [status, { "type": "array", "maxItems": EXPECTED_STATUSES_MAX, "items": status }],
                "description": "What counts as success. Left out, or an empty list: any 2xx.",
            },
        },
    })
}

fn stop() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "reason": { "type": ["string", "null"], "maxLength": 1024, "pattern": CONTEXT_PATTERN,
                        "examples": ["the database is being moved"], "description": "For those who find it stopped." },
        },
    })
}

#[cfg(test)]
mod tests {
    use crate::domain::pipeline::{HEADER_NAME, HEADER_VALUE, HTTP_BODY, PROGRAM, check_url};
    use crate::pipelines::{check_branch, check_repository_url, parse_name};

    #[test]
    fn the_documented_bounds_are_the_real_ones() {
        type Check = fn(&str) -> bool;
        let bounds: [(Check, &str, usize); 7] = [
            (|text| PROGRAM.check(text).is_ok(), "", 32_768),
            (|text| HTTP_BODY.check(text).is_ok(), "", 32_768),
            (|text| HEADER_NAME.check(text).is_ok(), "", 100),
            (|text| HEADER_VALUE.check(text).is_ok(), "", 4_096),
            (|text| check_url(text).is_ok(), "https://", 2_048),
            (|text| check_repository_url(text).is_ok(), "https://", 2_048),
            (|text| check_branch(text).is_ok(), "", 128),
        ];
        for (check, begin, most) in bounds {
            let text = |length: usize| format!("{begin}{}", "x".repeat(length - begin.len()));
            assert!(check(&text(most)) && !check(&text(most + 1)), "{most}");
        }
        assert!(parse_name(&"x".repeat(100)).is_ok() && parse_name(&"x".repeat(101)).is_err());
    }
}
