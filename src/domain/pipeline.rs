//! What a pipeline does for a deployment: stages in order, each with its steps. Everything here is within its bounds;
//! whoever makes one has checked, with the functions that stand here.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::uses::{StepSource, Use};
use super::{Identifier, Malformed, VariableName, VariableValue};

pub const STAGES_MAX: usize = 32;
pub const STEPS_MAX: usize = 32;
pub const ARGUMENTS_MAX: usize = 64;
pub const HEADERS_MAX: usize = 32;
/// A day: whoever needs longer has a step that watches something.
pub const TIMEOUT_SECONDS_MAX: u32 = 24 * 60 * 60;
pub const TIMEOUT_SECONDS_DEFAULT: u32 = 60 * 60;
/// All its texts together: a deployment keeps a copy of what it ran, and a batch of the store takes that at once.
pub const BLUEPRINT_BYTES_MAX: usize = 60 * 1024;

/// The stages of a pipeline as they stand at one moment. A deployment keeps the one it started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blueprint {
    /// None: a deployment succeeds in the moment it starts.
    pub stages: Vec<Stage>,
    /// What all its steps get to see; an environment's own win over them.
    pub variables: BTreeMap<VariableName, VariableValue>,
    /// Whether people may approve what they triggered themselves.
    pub self_approval: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Unique in its pipeline.
    pub name: Identifier,
    pub approval: ApprovalRule,
    /// For all its steps together, from when the first starts.
    pub timeout_seconds: u32,
    /// Whether running it again from its first step does no harm: then a stage that a crash of the server has cut off is
    /// started again by itself.
    pub idempotent: bool,
    /// One at least.
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalRule {
    Never,
    /// Each time, somebody has to approve before it starts.
    Always,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Unique in its stage.
    pub name: Identifier,
    pub action: Action,
    /// What it finds in its variables beside what all steps do, and over that.
    pub inputs: BTreeMap<VariableName, VariableValue>,
    /// In a deployment: which step of a registry stands here.
    pub source: Option<Arc<StepSource>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A program and its arguments; no shell, unless it is one.
    Run(Vec<Arc<str>>),
    Http(HttpCall),
    /// What a registry has under this name when a deployment starts, which keeps that in its place.
    Uses(Box<Use>),
}

/// `url`, `body` and the values of `headers` may have `${NAME}` of a variable; `$${` is a plain `${`. In a URL a value is
/// percent-encoded, in a body of JSON (by its `Content-Type`) it is escaped as within a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpCall {
    pub method: Arc<str>,
    pub url: Arc<str>,
    pub headers: Vec<(Arc<str>, Arc<str>)>,
    pub body: Option<Arc<str>>,
    /// Empty: any 2xx.
    pub expect_status: Vec<u16>,
}

impl Default for Blueprint {
    fn default() -> Self {
        Self { stages: Vec::new(), variables: BTreeMap::new(), self_approval: true }
    }
}

impl Blueprint {
    pub fn bytes(&self) -> usize {
        let variables = self.variables.iter().map(|(name, value)| name.as_str().len() + value.as_str().len());
        let stages = self.stages.iter().map(|stage| {
            let steps = stage.steps.iter().map(Step::bytes);
            stage.name.as_str().len() + steps.sum::<usize>()
        });
        variables.sum::<usize>() + stages.sum::<usize>()
    }
}

impl Step {
    /// One that is defined in its pipeline.
    pub fn own(name: Identifier, action: Action) -> Self {
        Self { name, action, inputs: BTreeMap::new(), source: None }
    }

    fn bytes(&self) -> usize {
        let inputs = self.inputs.iter().map(|(name, value)| name.as_str().len() + value.as_str().len());
        let source = self.source.as_ref().map_or(0, |source| source.bytes());
        self.name.as_str().len() + self.action.bytes() + inputs.sum::<usize>() + source
    }
}

impl Action {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Action::Run(arguments) => arguments.iter().map(|argument| argument.len() + 1).sum(),
            Action::Http(call) => {
                let headers = call.headers.iter().map(|(name, value)| name.len() + value.len());
                call.method.len() + call.url.len() + headers.sum::<usize>() + call.body.as_ref().map_or(0, |b| b.len())
            }
            Action::Uses(used) => used.bytes(),
        }
    }
}

/// One argument of a program, or the program itself if it is the first.
pub fn check_argument(text: &str, first: bool) -> Result<(), Malformed> {
    if first && text.is_empty() {
        return Err(Malformed("names a program"));
    }
    let sane = text.len() <= 32 * 1024 && !text.contains('\0');
    sane.then_some(()).ok_or(Malformed("is at most 32768 bytes, without NUL"))
}

pub fn check_method(text: &str) -> Result<(), Malformed> {
    let sane = (1..=16).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_uppercase());
    sane.then_some(()).ok_or(Malformed("is an HTTP method like POST, in upper case"))
}

pub fn check_url(text: &str) -> Result<(), Malformed> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let sane = text.len() <= 2048
        && rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    sane.then_some(()).ok_or(Malformed("is an http or https URL of at most 2048 visible ASCII characters"))
}

pub fn check_header_name(text: &str) -> Result<(), Malformed> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let sane = (1..=100).contains(&text.len()) && text.bytes().all(token);
    let ours =
        ["host", "content-length", "transfer-encoding", "connection"].iter().any(|n| text.eq_ignore_ascii_case(n));
    (sane && !ours).then_some(()).ok_or(Malformed("is the name of a header that a request may set"))
}

pub fn check_header_value(text: &str) -> Result<(), Malformed> {
    let sane = text.len() <= 4096 && text.bytes().all(|byte| byte == b'\t' || (32..127).contains(&byte));
    sane.then_some(()).ok_or(Malformed("is at most 4096 printable ASCII characters"))
}

pub fn check_http_body(text: &str) -> Result<(), Malformed> {
    (text.len() <= 32 * 1024).then_some(()).ok_or(Malformed("is at most 32768 bytes"))
}
