//! What a pipeline does for a deployment: stages in order, each with its steps. Everything here is within its bounds;
//! whoever makes one has checked, with the functions that stand here.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::named::named_enum;
use super::text_rule::{CharClass, Reserved, TextRule};
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
const ARGUMENT_BYTES_MAX: usize = 32 * 1024;

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

named_enum! {
    pub enum ApprovalRule {
        Never = "never",
        /// Each time, somebody has to approve before it starts.
        Always = "always",
    }
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

/// The first argument.
pub const PROGRAM: TextRule =
    TextRule::of(1..=ARGUMENT_BYTES_MAX, CharClass::NO_NUL, "must name a program, in at most 32768 bytes without NUL")
        .in_bytes();
pub const ARGUMENT: TextRule =
    TextRule::of(0..=ARGUMENT_BYTES_MAX, CharClass::NO_NUL, "must be at most 32768 bytes, without NUL").in_bytes();
pub const METHOD: TextRule =
    TextRule::of(1..=16, CharClass::new("A-Z"), "must be an HTTP method in upper case, such as POST");
pub const HEADER_NAME: TextRule = TextRule::of(
    1..=100,
    CharClass::new("A-Za-z0-9!#$%&'*+.^_`|~-"),
    "must be the name of a header that a request may set",
)
.reserving(Reserved::Words(&["host", "content-length", "transfer-encoding", "connection"]));
pub const HEADER_VALUE: TextRule =
    TextRule::of(0..=4096, CharClass::new(r"\t -~"), "must be at most 4096 printable ASCII characters");
pub const HTTP_BODY: TextRule = TextRule::of(0..=32_768, CharClass::ANY, "must be at most 32768 bytes").in_bytes();

pub const URL_LENGTH_MAX: usize = 2048;
/// What [`check_url`] allows, apart from the length.
pub const URL_PATTERN: &str = "^https?://[!-.0-~][!-~]*$";

pub fn check_url(text: &str) -> Result<(), Malformed> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let sane = text.len() <= URL_LENGTH_MAX
        && rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    sane.then_some(()).ok_or(Malformed("must be an http or https URL of at most 2048 visible ASCII characters"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::samples::assert_pattern_fits;

    #[test]
    fn the_pattern_of_a_url_allows_what_the_check_allows() {
        let good = ["http://a", "https://deploy.example/hooks?x=1", "https://${HOST}/x"];
        let bad = ["", "https://", "https:///x", "ftp://a", "https://a b", "https://ä", "HTTP://a"];
        assert_pattern_fits(URL_PATTERN, |text| check_url(text).is_ok(), &good, &bad);
    }
}
