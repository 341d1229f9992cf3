//! What a step does, as a body has it: in a pipeline and in a registry.

use std::sync::Arc;

use super::body::Fields;
use crate::domain::pipeline::{
    ARGUMENT, ARGUMENTS_MAX, HEADER_NAME, HEADER_VALUE, HEADERS_MAX, HTTP_BODY, METHOD, PROGRAM, check_url,
};
use crate::domain::{Action, Description, HttpCall, INPUTS_MAX, Identifier, Input, InputKind, RegistryStep};
use crate::pipelines::{EXPECTED_STATUSES_MAX, STATUSES, default_method};

/// `run` or `http`, whichever there is.
pub fn read_action(step: &mut Fields) -> Option<Action> {
    let run = step.list("run", 1..=ARGUMENTS_MAX, |place, argument| {
        if place == 0 { PROGRAM.parse(argument) } else { ARGUMENT.parse(argument) }
    });
    let http = step.object("http", read_http_call).flatten();
    run.map(Action::Run).or_else(|| http.map(Action::Http))
}

/// A step of a registry.
pub fn read_registry_step(step: &mut Fields) -> Option<RegistryStep> {
    let name = step.required_text("name", Identifier::parse);
    let version = step.required_text("version", Identifier::parse);
    let description = step.nullable_text("description", Description::parse);
    let inputs = step.named_objects("inputs", INPUTS_MAX, read_input);
    match (step.has("run"), step.has("http")) {
        (true, true) => step.wrong("run", "and `http` are not given together: a step does one thing"),
        (false, false) => step.wrong("run", "is required, or `http` in its place"),
        (true, false) | (false, true) => {}
    }
    let action = read_action(step);
    let description = description.or_else(|| Description::parse("").ok());
    Some(RegistryStep {
        name: name?,
        version: version?,
        description: description?,
        inputs: inputs.unwrap_or_default(),
        action: action?,
    })
}

fn read_input(input: &mut Fields) -> Option<Input> {
    let kind = input.required_text("type", InputKind::parse);
    let required = input.boolean("required").unwrap_or(false);
    let default = input.input("default");
    if let (Some(kind), Some(default)) = (kind, &default)
        && kind != default.kind()
    {
        input.wrong("default", format!("is a {}, not a {}", kind.as_str(), default.kind().as_str()));
    }
    if required && default.is_some() {
        input.wrong("default", "is never used where the input is required");
    }
    Some(Input { kind: kind?, required, default })
}

fn read_http_call(call: &mut Fields) -> Option<HttpCall> {
    let method = call.text("method", |text| METHOD.parse(text));
    let url = call.required_text("url", |text| check_url(text).map(|()| Arc::from(text)));
    let headers = call.texts("headers", HEADERS_MAX, |text| HEADER_NAME.parse(text), |text| HEADER_VALUE.parse(text));
    let body = call.nullable_text("body", |text| HTTP_BODY.parse(text));
    let statuses = i64::from(*STATUSES.start())..=i64::from(*STATUSES.end());
    let expected = call.integers("expectStatus", EXPECTED_STATUSES_MAX, statuses).unwrap_or_default();
    Some(HttpCall {
        method: method.unwrap_or_else(|| default_method(body.is_some())),
        url: url?,
        headers: headers.unwrap_or_default().into_iter().collect(),
        body,
        expect_status: expected.into_iter().filter_map(|status| u16::try_from(status).ok()).collect(),
    })
}
