//! Secrets planted in every case, which must not appear in any request.

use analysis::{Case, CaseStep, Success};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use domain::{CommitId, DeploymentId, IdSeed, StepStatus};
use serde_json::Value;

use super::sets::{STEP, identifier, line};
use crate::support::recorded::Request;

/// The secrets of the organization.
pub const SECRETS: [&str; 3] =
    ["correct-horse-battery-staple", "Tr0ub4dor \"zwölf\" & <3>/x", "first-line-of-a-secret\nsecond-line-of-a-secret"];

/// The part that looks like a credential in all of these texts, which are not declared as secrets.
const CREDENTIAL: &str = "hUnt3rZ2QxV9bLkP7wTd";
const CREDENTIALS: &[&str] = &[
    "remote: using ghp_{} to push",
    "\u{1b}[32mghp_{}\u{1b}[0m is used",
    "using glpat-{} and sk-proj-{} and npm_{}",
    r#"level=info msg="{\"user\":\"ci\",\"password\":\"{}\"}""#,
    r"output: first\nghp_{}\n",
    "> Authorization: Bearer {}",
    "> authorization: Basic {}==",
    "set-cookie: session={}; HttpOnly",
    "git clone https://ci:{}@git.example/shop.git",
    "DATABASE_URL=postgres://shop:p@{}@db.example/shop",
    "GET /callback?code={}&state=1",
    "callback=https%3A%2F%2Fci%3A{}%40git.example",
    "AWS_SECRET_ACCESS_KEY={}",
    "export DB_PASS={}",
    "client_secret: 'two words, {}'",
    "PASSWORD=\"two words {}\"",
    "{\"auths\": {\"registry.example\": {\"auth\": \"{}\"}}}",
    "//npm.example/:_authToken={}",
    "curl -sS -u ci:{} https://api.example",
    "mysql -h db -p{} shop",
    "docker login -u ci -p {} registry.example",
    "machine git.example login ci password {}",
    "deploy --api-key {} --verbose",
    "posting to https://hooks.slack.com/services/T0/B0/{}",
    "eyJhbGciOiJIUzI1NiJ9.{}.{}",
];
const CREDENTIAL_KEY: [&str; 4] =
    ["-----BEGIN RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA{}", "{}", "-----END RSA PRIVATE KEY-----"];
const KEY_IN_SCRIPT: &str =
    "sh -c cat > key <<END\n-----BEGIN PRIVATE KEY-----\nMIIE{}\n-----END PRIVATE KEY-----\nEND\n";

/// The number of planted lines per case; the cases take turns.
const LINES_PER_CASE: usize = 8;

/// With an earlier step that printed secrets, with some at the end of the log, in the error and in the scripts. The
/// lines of the log keep their numbers.
pub fn planted_in(case: &Case, turn: usize) -> Case {
    let mut case = case.clone();
    let all: Vec<String> = secret_lines().into_iter().chain(credential_lines()).collect();
    let mut some = all.iter().cycle().skip(turn * LINES_PER_CASE % all.len());
    let mut before: Vec<&str> = some.by_ref().take(LINES_PER_CASE).map(String::as_str).collect();
    let key = CREDENTIAL_KEY.map(|text| text.replace("{}", CREDENTIAL));
    before.extend(key.iter().map(String::as_str));
    let before = before.into_iter().zip(1..).map(|(text, number)| line("prepare", number, text));
    let next = u32::try_from(case.lines.len() + 1).unwrap();
    let after = [&all[turn % all.len()], &format!("token: {CREDENTIAL}")];
    let after: Vec<_> = after.into_iter().zip(next..).map(|(text, number)| line(STEP, number, text)).collect();
    case.lines = before.chain(case.lines).chain(after).collect();
    let in_error = some.next().map_or("", |text| text);
    case.error = Some(format!("{} with {in_error}", case.error.as_deref().unwrap_or("failed")).into());
    let steps = &mut case.stages[0].steps;
    steps[0].action = format!("./deploy --password {CREDENTIAL} {}", SECRETS[0]);
    let prepare = CaseStep {
        name: identifier("prepare"),
        status: StepStatus::Succeeded,
        exit_code: Some(0),
        action: format!("{}{}", KEY_IN_SCRIPT.replace("{}", CREDENTIAL), SECRETS[2]),
    };
    steps.insert(0, prepare);
    case.last_success = Some(Success {
        deployment: DeploymentId(IdSeed([1; 12])),
        commit: CommitId::parse("decade2").unwrap(),
        lines: Vec::new(),
        earlier: Vec::new(),
        actions_differ: vec![format!("deploy/{}", SECRETS[0])],
    });
    case
}

fn credential_lines() -> impl Iterator<Item = String> {
    CREDENTIALS.iter().map(|text| text.replace("{}", CREDENTIAL))
}

fn secret_lines() -> Vec<String> {
    let coloured = |value: &str| value.replacen('-', "\u{1b}[1m-\u{1b}[0m", 1);
    let of = |value: &'static str| {
        let forms = forms(value).into_iter().map(|form| format!("value is {form}, printed"));
        forms.chain([format!("value is {}", coloured(value))])
    };
    // A log is split into lines, so none of them contains a whole secret of several lines.
    SECRETS.into_iter().flat_map(str::lines).flat_map(of).collect()
}

/// The ways in which programs write a value.
fn forms(value: &str) -> Vec<String> {
    let bytes = value.as_bytes();
    let each = |form: &dyn Fn(u8) -> String| bytes.iter().map(|byte| form(*byte)).collect::<String>();
    let json = Value::String(value.to_owned()).to_string();
    vec![
        value.to_owned(),
        json.trim_matches('"').to_owned(),
        STANDARD_NO_PAD.encode(bytes),
        URL_SAFE_NO_PAD.encode(bytes),
        each(&|byte| format!("{byte:02x}")),
        each(&|byte| format!("%{byte:02X}")),
        each(&|byte| format!("\\x{byte:02x}")),
    ]
}

/// Checks that no planted value is in the request, neither as sent nor as the model reads it.
pub fn assert_hidden(request: &Request) {
    let body = request.json();
    let mut texts = vec![request.body.clone()];
    for message in body["messages"].as_array().unwrap() {
        let content = message["content"].as_str().unwrap();
        texts.push(content.to_owned());
        strings(&serde_json::from_str(content).unwrap_or_default(), &mut texts);
    }
    let secrets = SECRETS.into_iter().flat_map(str::lines).flat_map(forms).chain([CREDENTIAL.to_owned()]);
    for secret in secrets {
        let found = texts.iter().find(|text| text.contains(&secret));
        assert!(found.is_none(), "{}: {secret} was sent: {}", request.path, found.map_or("", |text| text));
    }
}

fn strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| strings(value, found)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            found.push(name.clone());
            strings(value, found);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
