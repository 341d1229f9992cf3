//! For any request body, each form accepts it or reports its faults.

#![allow(clippy::unwrap_used)]

use actix_web::web::Bytes;
use serde_json::{Value, json};

use super::{Body, Code};
use crate::forms::{
    ClaimAnyForm, ClaimForm, ConfigurationForm, DeployForm, ForceClaimForm, Form, HeartbeatForm, MemberForm,
    ObjectForm, PipelineForm, Reader, RegistryStepForm, Spelling,
};
use crate::http::resources::{
    analyses, approvals, deployments, members, pipelines, secrets, step_registries, tokens, webhooks,
};
use testkit::fuzz::fuzz;

/// Bodies that the forms with fields accept.
const SAMPLES: &[&str] = &[
    "",
    "{}",
    r#"{"commitId":"c0ffee1","context":"PR 412","ttlSeconds":900,"waitSeconds":60,"queue":true,"priority":-5,"labels":{"size":"large"}}"#,
    r#"{"commitId":"c0ffee1","waitSeconds":300,"fencingToken":9223372036854775807}"#,
    r#"{"configuration":{"description":"For a look","labels":{"size":"small"},"deployOnClaim":true,"defaultTtlSeconds":900,
        "maxTtlSeconds":86400,"maxHoldSeconds":7200,"maxQueueLength":50,"forceClaimRole":"maintainer",
        "onRelease":{"commitId":"main"},"disabled":false,"variables":{"REGION":"north"}}}"#,
    r#"{"description":"","labels":{},"maxTtlSeconds":1e2,"maxQueueLength":0,"onRelease":null,"variables":{"A":"\u0000\ud83d\ude00"}}"#,
    r#"{"name":"Shop","slug":"shop","stages":[{"name":"build","approval":"always","timeoutSeconds":60,"idempotent":true,
        "steps":[{"name":"a","run":["make","all"]},{"http":{"method":"PUT","url":"https://x.example/y","headers":{"X-A":"b"},
        "body":"{}","expectStatus":[200,204]}},{"uses":"tools/build@1.2.0","with":{"JOBS":4,"QUICK":true,"T":"x"}}]}],
        "variables":{"A":"b"},"selfApproval":false,"repository":{"provider":"github","url":"https://github.com/a/b.git",
        "defaultBranch":"main","credential":"GIT_TOKEN","apiUrl":"https://github.example/api/v3"}}"#,
    r#"{"name":"build","version":"1.2.0","description":"d","inputs":{"JOBS":{"type":"number","default":4},
        "T":{"type":"string","required":true}},"run":"make"}"#,
    r#"{"name":"tools","steps":[{"name":"build","version":"1","http":{"url":"https://x.example","expectStatus":204}}]}"#,
    r#"{"name":"tools","git":{"url":"git@git.example:tools.git","ref":"v1","credential":"GIT_TOKEN"}}"#,
    r#"{"name":"ana","role":"developer"}"#,
    r#"{"role":"admin"}"#,
    r#"{"name":"laptop","user":"ana","userId":"usr_01a1dcfad739753cbcc51812","expiresAt":"2027-01-31T00:00:00Z"}"#,
    r#"{"name":"TOKEN","value":"hunter2hunter2","description":"d","pipelineId":"web"}"#,
    r#"{"url":"https://hooks.example/in","events":["session.*","deployment.failed"],"description":"d","enabled":true,
        "secret":"whsec_0123456789abcdef0123456789abcdef"}"#,
    r#"{"graceSeconds":3600,"secret":null}"#,
    r#"{"engine":"builtin","waitSeconds":30,"branch":"fix/it","title":"Fix it","draft":true}"#,
    r#"{"reason":"not before Monday","comment":"fine"}"#,
];

/// Calls a macro with every form of a request body.
macro_rules! with_all_forms {
    ($call:ident) => {
        $call!(
            ClaimAnyForm,
            ClaimForm,
            ForceClaimForm,
            DeployForm,
            HeartbeatForm,
            ConfigurationForm,
            PipelineForm,
            MemberForm,
            RegistryStepForm,
            analyses::AnalysisForm,
            analyses::FixForm,
            approvals::ApproveForm,
            approvals::RejectForm,
            deployments::StageActionForm,
            members::MemberChangeForm,
            pipelines::StopForm,
            pipelines::ResumeForm,
            secrets::SecretForm,
            secrets::SecretChangeForm,
            step_registries::RegistryForm,
            tokens::TokenForm,
            webhooks::WebhookForm,
            webhooks::WebhookChangeForm,
            webhooks::WebhookSecretForm,
            webhooks::WebhookActionForm
        )
    };
}

#[test]
fn fuzzed_bodies_are_taken_or_refused_with_what_is_wrong() {
    let names: Vec<_> = field_names().into_iter().map(|name| format!("\"{name}\":")).collect();
    let mut words: Vec<&str> = names.iter().map(String::as_str).collect();
    words.extend([
        "null,",
        "true,",
        "1e400,",
        "-1,",
        "0.5,",
        "18446744073709551616,",
        "\"\\ud800\"",
        "[[",
        "]]",
        "{\"",
        "}}",
    ]);
    fuzz(SAMPLES, &words, |bytes| outcomes(&Body { bytes: Bytes::copy_from_slice(bytes) }));
}

/// The field names of all forms, as a client spells them.
fn field_names() -> Vec<String> {
    let mut names = Vec::new();
    macro_rules! names {
        ($($form:ty),*) => {
            $(<$form as ObjectForm>::each_name(&mut |name| names.push(Reader::new(Spelling::Camel).spell(name)));)*
        };
    }
    with_all_forms!(names);
    names
}

fn outcomes(body: &Body) -> Vec<Vec<String>> {
    macro_rules! read {
        ($($form:ty),*) => { vec![$(outcome_of::<$form>(body)),*] };
    }
    with_all_forms!(read)
}

/// Values at the limits of what fields accept.
fn edges() -> Vec<Value> {
    let numbers = [json!(-1), json!(0), json!(1), json!(0.5), json!(1e300), json!(i64::MAX), json!(u64::MAX)];
    let texts = [
        "",
        "x",
        "-x",
        "\0",
        "\u{e4}",
        "a b",
        "LOCKKEEPER_X",
        "a/b@1",
        "https://x.example",
        "admin",
        "2027-01-31T00:00:00Z",
    ];
    let others = [json!(null), json!(true), json!([]), json!({}), json!("x".repeat(5_000)), json!(["a", "a"])];
    numbers.into_iter().chain(texts.map(Value::from)).chain(others).collect()
}

/// A sample with values changed as the bytes choose.
fn changed(choices: &[u8], edges: &[Value], names: &[String]) -> Value {
    let (first, rest) = choices.split_first().unwrap_or((&0, &[]));
    let sample = SAMPLES[usize::from(*first) % SAMPLES.len()];
    let mut value: Value = serde_json::from_str(sample).unwrap_or_else(|_| json!({}));
    for choice in rest.chunks_exact(3) {
        let [place, kind, edge] = [choice[0], choice[1], choice[2]].map(usize::from);
        let edge_value = edges[edge % edges.len()].clone();
        let Some(node) = nth(&mut value, &mut { place }) else { continue };
        match (kind % 4, node) {
            (0, Value::Object(fields)) => {
                drop(fields.insert(names[edge % names.len()].clone(), edges[place % edges.len()].clone()))
            }
            (1, Value::Object(fields)) => drop(fields.keys().nth(edge).cloned().and_then(|name| fields.remove(&name))),
            (0, Value::Array(items)) => items.extend(items.first().cloned().into_iter().chain([edge_value])),
            (1, Value::Array(items)) => drop(items.pop()),
            (_, node) => *node = edge_value,
        }
    }
    value
}

/// The `n`th value in depth-first order.
fn nth<'v>(value: &'v mut Value, n: &mut usize) -> Option<&'v mut Value> {
    if *n == 0 {
        return Some(value);
    }
    *n -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, n)),
        Value::Object(fields) => fields.values_mut().find_map(|field| nth(field, n)),
        _ => None,
    }
}

#[test]
fn fuzzed_values_are_taken_or_refused_with_what_is_wrong() {
    let (edges, names) = (edges(), field_names());
    let samples: Vec<_> = (0..SAMPLES.len() as u8).map(|sample| [sample, 255, 255, 255]).collect();
    fuzz(samples, &["\0\0\0", "\x01\x01\x01"], |choices| {
        let value = changed(choices, &edges, &names);
        outcomes(&Body { bytes: serde_json::to_vec(&value).unwrap().into() })
    });
}

/// The kinds of faults that the form reports.
fn outcome_of<T: Form>(body: &Body) -> Vec<String> {
    let refused = match (Body { bytes: body.bytes.clone() }).form::<T>() {
        Ok(_) => {
            // The notation must not matter: line breaks, escapes, fractions of zero.
            let value: Value = serde_json::from_slice(&body.bytes).unwrap_or_else(|_| json!({}));
            let rewritten = Body { bytes: serde_json::to_vec(&value).unwrap().into() };
            assert!(rewritten.form::<T>().is_ok(), "the same in other words is refused: {value}");
            return Vec::new();
        }
        Err(refused) => refused,
    };
    match refused.code() {
        Code::MalformedJson => vec!["malformed".to_owned()],
        Code::InvalidRequest => {
            let mut reader = Reader::new(Spelling::Camel);
            let _ = T::read(&body.element().unwrap(), &mut reader);
            let faults = reader.into_faults();
            assert!(!faults.is_empty(), "it is refused for nothing");
            let mut kinds: Vec<_> = faults.iter().map(|fault| kind_of(&fault.message)).collect();
            kinds.sort_unstable();
            kinds.dedup();
            kinds
        }
        code => panic!("a body is answered with {code:?}"),
    }
}

/// A message without quotes from the request.
fn kind_of(message: &str) -> String {
    message.split(['`', ';', ',']).next().unwrap_or_default().replace(|c: char| c.is_ascii_digit(), "")
}
