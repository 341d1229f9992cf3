//! Secrets of an organization or of one pipeline: list, view, create, change, delete. Values go into the vault and
//! never appear in a response, problem or log line.

use actix_web::http::StatusCode;
use actix_web::http::header::ETAG;

use crate::forms::{example_of, form, rule_schema, texts};
use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::body::read_form;
use crate::http::call::Call;
use crate::http::codes::Code;
use crate::http::dto::{Time, view};
use crate::http::idempotent;
use crate::http::outcome::{done_in_task, done_within};
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::Problem;
use accounts::auth::Permission;
use accounts::secrets::{NewSecret, Secret, SecretChange, SecretValue};
use domain::{Description, Identifier, PipelineKey, Timestamp, VariableName};
use events::Cause;
use http1::Response;
use locks::idempotency::{Pending, StoredAnswer};

/// Advice for a change whose outcome is unknown.
const LOOK: &str = "look at the secret";

form! {
    /// A new secret.
    #[schema("examples": [{ "name": "EXAMPLE_PASSWORD", "value": "correct horse battery staple",
                            "description": "For trying the API" }])]
    pub struct SecretForm as "SecretRequest" {
        /// The name of the variable that contains the secret in steps.
        #[schema("examples": ["EXAMPLE_PASSWORD"])]
        required name: VariableName,
        /// The value, at most 16384 bytes in UTF-8. It is never shown again.
        #[schema("writeOnly": true)]
        required value: SecretValue,
        /// A description for people.
        nullable description: Description,
        /// The pipeline that gets the secret, where it takes precedence over the organization's secret of the same
        /// name; all pipelines if left out.
        #[schema("examples": ["web"])]
        nullable pipeline_id: Identifier,
    }
}

form! {
    /// A change of a secret; fields that are left out stay unchanged.
    #[schema("examples": [{ "value": "another horse" }])]
    pub struct SecretChangeForm as "SecretChangeRequest" {
        /// The value, at most 16384 bytes in UTF-8. It is never shown again.
        #[schema("writeOnly": true)]
        optional value: SecretValue,
        /// A description for people.
        optional description: Description,
    }
    any_of [value, description];
}

texts! {
    SecretValue: Self::parse, example_of(rule_schema(&Self::RULE), "correct horse battery staple");
}

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let pipeline = query.text("pipelineId", Identifier::parse);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let (vault, organization) = (access.realm.vault.clone(), access.caller.organization.clone());
    let secrets = access.read_list(move || vault.list(&organization, pipeline.as_ref())).await?;
    Ok(paging::part(&call.request, slice, &secrets, SecretView::new))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let SecretRef { pipeline, name } = SecretRef::of(&call)?;
    let found = access.realm.vault.get(&access.caller.organization, pipeline.as_ref(), &name)?;
    let secret = found.ok_or(Code::SecretNotFound)?;
    answer::tagged(call.request.headers(), &etag(&secret), || Ok(answer::ok(SecretView::new(&secret))))
}

pub async fn create(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageSecrets)?;
    let (form, pending) = idempotent::begin_secret(&mut call, &mut access).await?;
    let SecretForm { name, value, description, pipeline_id: pipeline } = form;
    let now = (access.realm.clock)();
    if let Some(id) = &pipeline
        && access.realm.pipelines.get(&access.caller.organization, id.as_str()).is_none()
    {
        return Err(unknown_pipeline().into());
    }
    let new = NewSecret { pipeline, name, value, description: description.unwrap_or_default() };
    let secret = done_in_task(access.node.answer_timeout, LOOK, make(access.clone(), new, pending, now)).await?;
    log_change(&access, &secret, "secret created");
    Ok(idempotent::response(created(&access, &secret)).with(ETAG, etag(&secret)))
}

async fn make(access: Access, new: NewSecret, pending: Option<Pending>, now: Timestamp) -> Result<Secret, Problem> {
    let organization = &access.caller.organization;
    // Keeps the pipeline from being deleted meanwhile, which would orphan this secret.
    let _entering = match new.pipeline.clone() {
        Some(pipeline) => {
            let key = PipelineKey { organization: organization.clone(), pipeline };
            Some(access.realm.pipelines.entering(&key).await.ok_or_else(unknown_pipeline)?)
        }
        None => None,
    };
    let keep = idempotent::keep(pending, || now, |secret| created(&access, secret));
    Ok(access.realm.vault.create(organization, new, Cause::by(&access.initiator(), now), keep).await?)
}

fn unknown_pipeline() -> Problem {
    Problem::invalid_field("pipelineId", "must be a pipeline of this organization")
}

pub async fn update(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageSecrets)?;
    let SecretRef { pipeline, name } = SecretRef::of(&call)?;
    let SecretChangeForm { value, description } = read_form(&mut call, &mut access).await?;
    let change = SecretChange { value, description };
    let expected = answer::expected_versions(call.request.headers());
    let (vault, organization) = (&access.realm.vault, &access.caller.organization);
    let initiator = access.initiator();
    let cause = Cause::by(&initiator, (access.realm.clock)());
    let updating = vault.update(organization, pipeline.as_ref(), &name, change, expected, cause);
    let secret = done_within(access.node.answer_timeout, LOOK, updating).await?;
    log_change(&access, &secret, "secret changed");
    Ok(answer::ok(SecretView::new(&secret)).with(ETAG, etag(&secret)))
}

pub async fn delete(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageSecrets)?;
    let SecretRef { pipeline, name } = SecretRef::of(&call)?;
    let expected = answer::expected_versions(call.request.headers());
    let (vault, organization) = (&access.realm.vault, &access.caller.organization);
    let initiator = access.initiator();
    let cause = Cause::by(&initiator, (access.realm.clock)());
    let deleting = vault.delete(organization, pipeline.as_ref(), &name, expected, cause);
    if !done_within(access.node.answer_timeout, LOOK, deleting).await? {
        return Err(Code::SecretNotFound.into());
    }
    let by = &access.caller.person.name;
    tracing::info!(secret = %name, pipeline = pipeline.as_ref().map(Identifier::as_str), %by, "secret deleted");
    Ok(Response::no_content())
}

/// The secret that a request is about: its name from the path, its pipeline from the query.
struct SecretRef {
    pipeline: Option<Identifier>,
    name: VariableName,
}

impl SecretRef {
    fn of(call: &Call) -> Result<Self, Problem> {
        let mut query = Query::of(&call.request);
        let pipeline = query.text("pipelineId", Identifier::parse);
        query.finish()?;
        let name = VariableName::parse(call.segment("name")).map_err(|_| Code::SecretNotFound)?;
        Ok(Self { pipeline, name })
    }
}

fn etag(secret: &Secret) -> String {
    format!("\"{}\"", secret.version)
}

fn created(access: &Access, secret: &Secret) -> StoredAnswer {
    let mut location = format!("/api/v1/organizations/{}/secrets/{}", access.caller.organization, secret.name);
    if let Some(pipeline) = &secret.pipeline {
        location += &format!("?pipelineId={pipeline}");
    }
    idempotent::answer(StatusCode::CREATED, Some(location), SecretView::new(secret))
}

fn log_change(access: &Access, secret: &Secret, what: &str) {
    let pipeline = secret.pipeline.as_ref().map(Identifier::as_str);
    let by = &access.caller.person.name;
    tracing::info!(secret = %secret.name, pipeline, version = secret.version, %by, "{what}");
}

view! {
    /// A secret, without its value.
    pub struct SecretView<'a> as Secret of (secret: &'a Secret) {
        /// The name of the variable that contains the secret in steps.
        #[schema(example = "EXAMPLE_PASSWORD")]
        name: &'a str = secret.name.as_str(),
        /// A description for people.
        #[schema(example = "For trying the API")]
        description: &'a str = secret.description.as_str(),
        /// The pipeline; null for a secret of the organization, which all its pipelines get.
        #[schema(example = "web")]
        pipeline_id: Option<&'a str> = secret.pipeline.as_ref().map(|pipeline| pipeline.as_str()),
        /// The version, which rises with every change.
        #[schema(example = 1)]
        version: u64 = secret.version,
        /// When the secret was created.
        created_at: Time = Time(secret.created_at),
        /// When the secret last changed.
        updated_at: Time = Time(secret.updated_at),
    }
}
