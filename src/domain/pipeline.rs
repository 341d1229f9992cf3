//! The blueprint of a deployment: stages in order, each with its steps, defined here or in a registry. The reader has
//! checked all values against the limits below.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::named::named_enum;
use super::text::{CharClass, Reserved, TextRule};
use super::{Identifier, Malformed, VariableName, VariableValue};

pub const STAGES_MAX: usize = 32;
pub const STEPS_MAX: usize = 32;
pub const ARGUMENTS_MAX: usize = 64;
pub const HEADERS_MAX: usize = 32;
/// A day. Longer work belongs elsewhere, with a step that watches it.
pub const TIMEOUT_SECONDS_MAX: u32 = 24 * 60 * 60;
pub const TIMEOUT_SECONDS_DEFAULT: u32 = 60 * 60;
/// The limit for all texts of a blueprint together: each deployment stores a copy, which must fit into one batch of the
/// store.
pub const BLUEPRINT_BYTES_MAX: usize = 60 * 1024;
const ARGUMENT_BYTES_MAX: usize = 32 * 1024;

/// A snapshot of the stages of a pipeline. A deployment keeps the blueprint it started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blueprint {
    /// A deployment without stages succeeds when it starts.
    pub stages: Vec<Stage>,
    /// Visible to all steps; an environment's own variables take precedence.
    pub variables: BTreeMap<VariableName, VariableValue>,
    /// Whether people may approve deployments that they triggered themselves.
    pub self_approval: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Unique in its pipeline.
    pub name: Identifier,
    pub approval: ApprovalRule,
    /// For all steps together, counted from the start of the first.
    pub timeout_seconds: u32,
    /// Whether the stage can safely be run again from its first step. If so, it is restarted automatically after a
    /// crash of the server.
    pub idempotent: bool,
    /// At least one.
    pub steps: Vec<Step>,
}

named_enum! {
    pub enum ApprovalRule {
        Never = "never",
        /// Each start needs an approval.
        Always = "always",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Unique in its stage.
    pub name: Identifier,
    pub action: Action,
    /// The step's own variables; they take precedence over those of all steps.
    pub inputs: BTreeMap<VariableName, VariableValue>,
    /// The registry step that this step was resolved from; set in deployments.
    pub source: Option<Arc<StepSource>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A program and its arguments, run without a shell.
    Run(Vec<Arc<str>>),
    Http(HttpCall),
    /// A step of a registry, resolved when a deployment starts.
    Uses(Box<Use>),
}

/// One version of one step of a registry: `registry/step@version`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepReference {
    pub registry: Identifier,
    pub step: Identifier,
    pub version: Identifier,
}

/// A step of a pipeline that is defined in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    pub reference: StepReference,
    /// The inputs, taken literally: no variables are substituted.
    pub with: BTreeMap<VariableName, InputValue>,
}

named_enum! {
    pub enum InputKind {
        String = "string",
        Number = "number",
        Boolean = "boolean",
    }
}

/// A value with its kind; the text is the value of the step's variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputValue {
    kind: InputKind,
    text: VariableValue,
}

/// Where a step of a deployment was defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepSource {
    pub reference: StepReference,
    /// The commit of the registry, if it has a repository.
    pub commit: Option<Arc<str>>,
}

/// `url`, `body` and the values of `headers` may contain `${NAME}`, the value of a variable; `$${` is a literal `${`.
/// Values are percent-encoded in a URL, and escaped in a JSON body (according to its `Content-Type`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpCall {
    pub method: Arc<str>,
    pub url: Arc<str>,
    pub headers: Vec<(Arc<str>, Arc<str>)>,
    pub body: Option<Arc<str>>,
    /// If empty, any 2xx.
    pub expect_status: Vec<u16>,
}

impl Default for Blueprint {
    fn default() -> Self {
        Self { stages: Vec::new(), variables: BTreeMap::new(), self_approval: true }
    }
}

impl Blueprint {
    /// The steps from registries.
    pub fn uses(&self) -> impl Iterator<Item = &Use> {
        self.stages.iter().flat_map(|stage| &stage.steps).filter_map(|step| match &step.action {
            Action::Uses(used) => Some(&**used),
            Action::Run(_) | Action::Http(_) => None,
        })
    }

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
    /// A step that is defined in its pipeline.
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

impl StepReference {
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        const FORM: Malformed = Malformed("must be registry/step@version, such as tools/build@1.2.0");
        let (registry, rest) = text.split_once('/').ok_or(FORM)?;
        let (step, version) = rest.split_once('@').ok_or(FORM)?;
        let part = |text| Identifier::parse(text).map_err(|_| FORM);
        Ok(Self { registry: part(registry)?, step: part(step)?, version: part(version)? })
    }

    pub fn pattern() -> String {
        let identifier = Identifier::RULE.pattern().expect("an identifier has not every character");
        let part = identifier.trim_matches(['^', '$']);
        format!("^{part}/{part}@{part}$")
    }

    fn bytes(&self) -> usize {
        self.registry.as_str().len() + self.step.as_str().len() + self.version.as_str().len()
    }
}

impl fmt::Display for StepReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.registry, self.step, self.version)
    }
}

impl InputValue {
    pub fn string(text: VariableValue) -> Self {
        Self { kind: InputKind::String, text }
    }

    /// A number in decimal, as JSON writes it.
    pub fn number(text: &str) -> Result<Self, Malformed> {
        let sane = text.parse::<f64>().is_ok_and(f64::is_finite)
            && text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        let text = sane.then(|| VariableValue::parse(text)).ok_or(Malformed("must be a finite number"))??;
        Ok(Self { kind: InputKind::Number, text })
    }

    pub fn boolean(value: bool) -> Self {
        let text = VariableValue::parse(if value { "true" } else { "false" }).expect("a word is within the bounds");
        Self { kind: InputKind::Boolean, text }
    }

    pub fn kind(&self) -> InputKind {
        self.kind
    }

    pub fn text(&self) -> &VariableValue {
        &self.text
    }
}

impl Use {
    fn bytes(&self) -> usize {
        let with = self.with.iter().map(|(name, value)| name.as_str().len() + value.text.as_str().len());
        self.reference.bytes() + with.sum::<usize>()
    }
}

impl StepSource {
    fn bytes(&self) -> usize {
        self.reference.bytes() + self.commit.as_ref().map_or(0, |commit| commit.len())
    }
}

/// The first argument: the program.
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
/// Allows everything that [`check_url`] does, apart from the length.
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
    use testkit::patterns::assert_pattern_fits;

    #[test]
    fn the_pattern_of_a_url_allows_what_the_check_allows() {
        let good = ["http://a", "https://deploy.example/hooks?x=1", "https://${HOST}/x"];
        let bad = ["", "https://", "https:///x", "ftp://a", "https://a b", "https://ä", "HTTP://a"];
        assert_pattern_fits(URL_PATTERN, |text| check_url(text).is_ok(), &good, &bad);
    }
}
