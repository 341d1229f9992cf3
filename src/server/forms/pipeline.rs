//! Forms for a pipeline: its stages with their steps, and its repository; and for a registry step, in a request or in a
//! file of the registry's repository.

use std::sync::Arc;

use serde_json::{Value, json};

use super::configuration::Variables;
use super::element::{Content, Element, Object};
use super::reader::Reader;
use super::schema::Schemas;
use super::types::{Integer, List, Map, choices, new_texts};
use super::{Form, form};
use domain::pipeline::{
    ARGUMENT, ARGUMENTS_MAX, BLUEPRINT_BYTES_MAX, HEADER_NAME, HEADER_VALUE, HEADERS_MAX, HTTP_BODY, METHOD, PROGRAM,
    STAGES_MAX, STEPS_MAX, TIMEOUT_SECONDS_DEFAULT, TIMEOUT_SECONDS_MAX, URL_PATTERN, check_url,
};
use domain::{
    Action, ApprovalRule, Blueprint, Description, HttpCall, INPUTS_MAX, Identifier, Input, InputKind, InputValue, NAME,
    REVISION, RegistryStep, Stage, Step, StepReference, Use, VariableName,
};
use locks::pipelines::{
    API_URL_PATTERN, Definition, EXPECTED_STATUSES_MAX, Provider, REPOSITORY_URL_PATTERN, Repository, STATUSES,
    check_api_url, check_repository_url, default_branch, default_method, step_name,
};

type TimeoutSeconds = Integer<1, { TIMEOUT_SECONDS_MAX as i64 }>;
type Status = Integer<{ *STATUSES.start() as i64 }, { *STATUSES.end() as i64 }>;
pub type InputValues = Map<VariableName, InputValue, INPUTS_MAX>;

form! {
    /// The whole pipeline: fields that are left out get their defaults. The texts of its stages and variables have at
    /// most 61440 bytes together.
    #[schema("examples": [{ "name": "Example", "stages": [{ "name": "build", "steps": [{ "run": ["echo", "hello"] }] }] }])]
    pub struct PipelineForm as "PipelineRequest" {
        /// The name for people; the id if left out.
        #[schema("examples": ["Web shop"])]
        optional name: Name,
        /// A short name for links; the id if left out.
        #[schema("examples": ["web"])]
        optional slug: Identifier,
        /// The stages, in the order in which they run. Without stages, a deployment succeeds immediately.
        #[schema("examples": [[{ "name": "build", "steps": [{ "run": ["echo", "hello"] }] }]])]
        optional(List::default()) stages: List<StageForm, 0, STAGES_MAX>,
        /// Variables for all steps; an environment's own variables take precedence.
        #[schema("examples": [{ "SHOP_PORT": "8443" }])]
        optional variables: Variables,
        /// Whether members may approve what they triggered themselves.
        optional(true) self_approval: bool,
        /// The repository with the code, for fixes of failed deployments.
        nullable repository: RepositoryForm,
    }
    check check_pipeline;
}

form! {
    /// A stage: steps that run one after another.
    pub struct StageForm as "StageRequest" {
        /// The stage's name, unique in its pipeline.
        #[schema("examples": ["build"])]
        required name: Identifier,
        /// `always`: every attempt of the stage needs an approval before it starts.
        optional(ApprovalRule::Never) approval: ApprovalRule,
        /// The time limit for all steps of the stage together.
        #[schema("examples": [600])]
        optional(TimeoutSeconds::new(TIMEOUT_SECONDS_DEFAULT as i64)) timeout_seconds: TimeoutSeconds,
        /// Whether the stage can safely be run again from its first step: if so, it is restarted automatically after a
        /// crash of the server interrupted it.
        optional(false) idempotent: bool,
        /// The steps, in the order in which they run; the first that fails ends the stage.
        required steps: List<StepForm, 1, STEPS_MAX>,
    }
    unique name;
}

form! {
    /// A step: a program, a request, or a step of a registry.
    pub struct StepForm as "StepRequest" {
        /// The step's name, unique in its stage. If left out: `step-1`, `step-2`, … by its position.
        #[schema("examples": ["compile"])]
        optional name: Identifier,
        /// A program and its arguments; no shell, unless the program is one. An argument has at most 32768 bytes.
        optional run: Command,
        /// An HTTP request to make.
        optional http: HttpForm,
        /// A step of a registry: `registry/step@version`. The step must exist when the pipeline is saved, and is looked
        /// up when a deployment starts.
        optional uses: StepReference,
        /// The inputs of the registry's step: values by name, of the input's type. Nothing is substituted in them.
        #[schema("examples": [{ "TARGET": "all", "STRICT": true }])]
        optional with: InputValues,
    }
    one_of [run] [http] [uses, with];
    unique name or step_name;
    check note_use;
}

form! {
    /// An HTTP request that a step makes.
    pub struct HttpForm as "HttpCallRequest" {
        /// The method. If left out: POST with a `body`, GET without.
        #[schema("examples": ["POST"])]
        optional method: Method,
        /// The URL. Its host must have a public address, or one that the operator allows (`outbound.allow`); otherwise
        /// the step fails. Redirects are not followed.
        #[schema("examples": ["https://deploy.example/hooks/shop"])]
        required url: Url,
        /// Headers of the request.
        #[schema("examples": [{ "X-Tier": "review" }])]
        optional headers: Map<HeaderName, HeaderValue, HEADERS_MAX>,
        /// The body of the request, at most 32768 bytes.
        #[schema("examples": ["tested"])]
        nullable body: HttpBody,
        /// The statuses that count as success, one or several; any 2xx if left out or empty.
        #[schema("examples": [[200, 204]])]
        optional expect_status: Statuses,
    }
}

form! {
    /// The repository with the code that a pipeline deploys.
    pub struct RepositoryForm as "RepositoryRequest" {
        /// `github` if pull requests can be opened on the server.
        required provider: Provider,
        /// The repository's URL. Its host must have a public address, or one that the operator allows
        /// (`outbound.allow`).
        #[schema("examples": ["https://git.example/shop.git"])]
        required url: RepositoryUrl,
        /// The branch that fixes are merged into.
        #[schema("examples": ["main"])]
        optional(Branch(default_branch())) default_branch: Branch,
        /// The name of the secret, of the pipeline or the organization, that contains a token for pushing branches and
        /// opening pull requests.
        #[schema("examples": ["GIT_TOKEN"])]
        nullable credential: VariableName,
        /// The API's URL for your own GitHub server. If left out: `/api/v3` on the host of `url`, or api.github.com for
        /// github.com.
        #[schema("examples": ["https://github.example/api/v3"])]
        nullable api_url: ApiUrl,
    }
}

new_texts! {
    /// The name of a pipeline or an organization, for people.
    Name: by NAME;
    Method: by METHOD;
    HeaderName: by HEADER_NAME;
    HeaderValue: by HEADER_VALUE;
    HttpBody: by HTTP_BODY;
    Branch: by REVISION;
    Program: by PROGRAM;
    Argument: by ARGUMENT;
    Url: from check_url, URL_PATTERN;
    RepositoryUrl: from check_repository_url, REPOSITORY_URL_PATTERN;
    ApiUrl: from check_api_url, API_URL_PATTERN;
}

choices! {
    Provider as "RepositoryProvider": "What serves a repository: any git server, or GitHub with its API.";
}

/// A program and its arguments; no shell, unless the program is one. An argument has at most 32768 bytes.
#[derive(Clone)]
pub struct Command(Vec<Arc<str>>);

impl Form for Command {
    fn read(element: &Element<'_>, reader: &mut Reader) -> Option<Self> {
        let elements = reader.array(element)?;
        let fits = reader.check_count(element.at, elements.len(), 1, ARGUMENTS_MAX);
        let arguments = elements.iter().take(ARGUMENTS_MAX).enumerate().map(|(index, argument)| match index {
            0 => reader.entry(index, argument).map(|Program(text)| text),
            _ => reader.entry(index, argument).map(|Argument(text)| text),
        });
        let arguments: Vec<Option<Arc<str>>> = arguments.collect();
        let arguments: Option<Vec<_>> = arguments.into_iter().collect();
        arguments.filter(|_| fits).map(Self)
    }

    fn schema(schemas: &mut Schemas) -> Value {
        let mut schema = List::<Argument, 1, ARGUMENTS_MAX>::schema(schemas);
        schema["prefixItems"] = json!([Program::schema(schemas)]);
        schema["examples"] = json!([["echo", "hello"]]);
        schema
    }
}

/// One status, or a list of them.
#[derive(Clone, Default)]
pub struct Statuses(Vec<u16>);

impl Form for Statuses {
    fn read(element: &Element<'_>, reader: &mut Reader) -> Option<Self> {
        let statuses = if let Content::Array(_) = element.content {
            List::<Status, 0, EXPECTED_STATUSES_MAX>::read(element, reader)?.0
        } else {
            vec![Status::read(element, reader)?]
        };
        Some(Self(statuses.into_iter().filter_map(|status| u16::try_from(status.get()).ok()).collect()))
    }

    fn schema(schemas: &mut Schemas) -> Value {
        // Each type's bounds apply only to values of that type.
        let mut schema = Status::schema(schemas);
        let list = List::<Status, 0, EXPECTED_STATUSES_MAX>::schema(schemas);
        schema["type"] = json!(["integer", "array"]);
        schema["items"] = list["items"].clone();
        schema["maxItems"] = list["maxItems"].clone();
        schema
    }
}

fn note_use(_: &Object<'_>, form: Option<&StepForm>, reader: &mut Reader) {
    if let Some(used) = form.and_then(StepForm::used) {
        reader.note_use(used);
    }
}

fn check_pipeline(object: &Object<'_>, form: Option<&PipelineForm>, reader: &mut Reader) {
    let bytes = form.map_or(0, |form| form.blueprint().bytes());
    if bytes > BLUEPRINT_BYTES_MAX {
        let message =
            format!("must have texts of at most {BLUEPRINT_BYTES_MAX} bytes together with the variables, got {bytes}");
        reader.field_fault(object, "stages", message);
    }
}

impl PipelineForm {
    pub fn definition(&self, id: &Identifier) -> Definition {
        Definition {
            name: self.name.as_ref().map_or_else(|| id.to_string(), |name| name.0.to_string()),
            slug: self.slug.clone().unwrap_or_else(|| id.clone()),
            blueprint: Arc::new(self.blueprint()),
            repository: self.repository.as_ref().map(RepositoryForm::repository),
        }
    }

    fn blueprint(&self) -> Blueprint {
        Blueprint {
            stages: self.stages.0.iter().map(StageForm::stage).collect(),
            variables: self.variables.clone().unwrap_or_default().0,
            self_approval: self.self_approval,
        }
    }
}

impl StageForm {
    fn stage(&self) -> Stage {
        let steps = self.steps.0.iter().enumerate();
        Stage {
            name: self.name.clone(),
            approval: self.approval,
            timeout_seconds: self.timeout_seconds.u32(),
            idempotent: self.idempotent,
            steps: steps.filter_map(|(index, step)| step.step(index)).collect(),
        }
    }
}

impl StepForm {
    /// `None` if the form defines no action, which is refused.
    fn step(&self, index: usize) -> Option<Step> {
        let name = self.name.clone().unwrap_or_else(|| step_name(index));
        let uses = || self.used().map(|used| Action::Uses(Box::new(used)));
        Some(Step::own(name, action(self.run.as_ref(), self.http.as_ref()).or_else(uses)?))
    }

    fn used(&self) -> Option<Use> {
        Some(Use { reference: self.uses.clone()?, with: self.with.clone().unwrap_or_default().0 })
    }
}

fn action(run: Option<&Command>, http: Option<&HttpForm>) -> Option<Action> {
    let run = run.map(|run| Action::Run(run.0.clone()));
    run.or_else(|| http.map(|http| Action::Http(http.call())))
}

impl HttpForm {
    fn call(&self) -> HttpCall {
        let headers = self.headers.iter().flat_map(|headers| &headers.0);
        HttpCall {
            method: self.method.as_ref().map_or_else(|| default_method(self.body.is_some()), |method| method.0.clone()),
            url: self.url.0.clone(),
            headers: headers.map(|(name, value)| (name.0.clone(), value.0.clone())).collect(),
            body: self.body.as_ref().map(|body| body.0.clone()),
            expect_status: self.expect_status.clone().unwrap_or_default().0,
        }
    }
}

impl RepositoryForm {
    fn repository(&self) -> Repository {
        Repository {
            provider: self.provider,
            url: self.url.0.clone(),
            default_branch: self.default_branch.0.clone(),
            credential: self.credential.clone(),
            api_url: self.api_url.as_ref().map(|url| url.0.clone()),
        }
    }
}

form! {
    /// A step that pipelines can use.
    pub struct RegistryStepForm as "RegistryStepRequest" {
        /// The step's name, unique in the registry together with its version.
        #[schema("examples": ["build"])]
        required name: Identifier,
        /// The step's version: any name that differs from the other versions.
        #[schema("examples": ["1.2.0"])]
        required version: Identifier,
        /// A description for people.
        nullable description: Description,
        /// The step's inputs. Each is passed in a variable of the same name, which takes precedence over the
        /// pipeline's.
        #[schema("examples": [{ "WHOM": { "type": "string", "default": "world" } }])]
        optional inputs: Map<VariableName, InputForm, INPUTS_MAX>,
        /// A program and its arguments; no shell, unless the program is one. An argument has at most 32768 bytes.
        optional run: Command,
        /// An HTTP request to make.
        optional http: HttpForm,
    }
    one_of [run] [http];
}

form! {
    /// An input of a step.
    pub struct InputForm as "StepInputRequest" {
        /// The type of the input's values.
        required r#type: InputKind,
        /// Whether a pipeline has to give a value.
        optional(false) required: bool,
        /// The default value, of the input's type. Not allowed for a required input.
        #[schema("examples": ["world"])]
        nullable default: InputValue,
    }
    check check_input;
}

fn check_input(object: &Object<'_>, form: Option<&InputForm>, reader: &mut Reader) {
    let Some(InputForm { r#type: kind, required, default: Some(default) }) = form else { return };
    if *kind != default.kind() {
        let message = format!("must be a {}, got a {}", kind.as_str(), default.kind().as_str());
        reader.field_fault(object, "default", message);
    }
    if *required {
        reader.field_fault(object, "default", "is never used for an input that is required; leave one of them out");
    }
}

impl RegistryStepForm {
    /// `None` if the form defines no action, which is refused.
    pub fn step(&self) -> Option<RegistryStep> {
        let inputs = self.inputs.iter().flat_map(|inputs| &inputs.0);
        let input =
            |input: &InputForm| Input { kind: input.r#type, required: input.required, default: input.default.clone() };
        Some(RegistryStep {
            name: self.name.clone(),
            version: self.version.clone(),
            description: self.description.clone().unwrap_or_default(),
            inputs: inputs.map(|(name, form)| (name.clone(), input(form))).collect(),
            action: action(self.run.as_ref(), self.http.as_ref())?,
        })
    }
}
