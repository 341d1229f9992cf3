//! Secrets of an organization or of one pipeline: list, view, make, change, delete. A value comes in and goes into the
//! vault; no answer, problem or line of the log has it.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;

use crate::auth::Permission;
use crate::domain::{Description, Identifier, Malformed, PipelineKey, Timestamp, VariableName};
use crate::events::Cause;
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::body::read_fields;
use crate::http::call::Call;
use crate::http::dto::SecretView;
use crate::http::idempotent::{self, Begun};
use crate::http::outcome::done_within;
use crate::http::paging::{self, Query, Slice};
use crate::http::problem::{FieldError, Problem};
use crate::http::{answer, refusals};
use crate::idempotency::Pending;
use crate::secrets::{NewSecret, Secret, SecretChange, SecretValue};
use crate::store::Batch;

/// What to do where the outcome of a change is not known.
const LOOK: &str = "look at the secret";
const UNKNOWN_PIPELINE: Malformed = Malformed("is no pipeline of this organization");

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let mut query = Query::of(&call.request);
    let pipeline = query.text("pipelineId", Identifier::parse);
    let slice = Slice::take(&mut query);
    query.finish()?;
    let (vault, organization) = (access.realm.vault.clone(), access.caller.organization.clone());
    let secrets = access.node.scans.read(move || vault.list(&organization, pipeline.as_ref())).await?;
    let offset = usize::try_from(slice.offset).unwrap_or(usize::MAX);
    let shown = secrets.iter().skip(offset).take(slice.limit as usize);
    Ok(paging::slice(&call.request, slice, secrets.len() as u64, shown.map(SecretView::from).collect()))
}

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let Place { pipeline, name } = Place::of(&call)?;
    let found = access.realm.vault.get(&access.caller.organization, pipeline.as_ref(), &name)?;
    let secret = found.ok_or_else(refusals::secret_not_found)?;
    answer::tagged(call.request.headers(), &etag(&secret), || Ok(render(StatusCode::OK, &secret)))
}

pub async fn create(mut call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageSecrets)?;
    let Begun { body, pending } = idempotent::begin_secret(&mut call, &access).await?;
    let now = (access.realm.clock)();
    let mut fields = body.fields()?;
    let name = fields.required_text("name", VariableName::parse);
    let value = fields.required_text("value", SecretValue::parse);
    let description = fields.nullable_text("description", Description::parse);
    let pipeline = fields.nullable_text("pipelineId", |id| {
        let found = access.realm.pipelines.get(&access.caller.organization, id).ok_or(UNKNOWN_PIPELINE)?;
        Ok(found.key.pipeline.clone())
    });
    fields.finish()?;
    let (Some(name), Some(value)) = (name, value) else { return Err(Problem::invalid_request(Vec::new()).into()) };

    let description = description.unwrap_or_else(|| Description::parse("").expect("no text is within the bounds"));
    let new = NewSecret { pipeline, name, value, description };
    let secret = done_within(access.node.answer_timeout, LOOK, make(access.clone(), new, pending, now)).await?;
    told(&access, &secret, "a secret was made");
    let made = idempotent::answer(StatusCode::CREATED, Some(url(&access, &secret)), SecretView::from(&secret));
    Ok(answer::with_etag(idempotent::response(made), &etag(&secret)))
}

/// Makes the secret and keeps the answer, in a task of its own: the key must stay in flight until both are durable, also
/// where the caller has gone or has waited long enough.
async fn make(access: Access, new: NewSecret, pending: Option<Pending>, now: Timestamp) -> Result<Secret, Problem> {
    let making = actix_web::rt::spawn(async move {
        let organization = &access.caller.organization;
        // A pipeline is not deleted meanwhile, with all its secrets but this one.
        let _entering = match new.pipeline.clone() {
            Some(pipeline) => {
                let key = PipelineKey { organization: organization.clone(), pipeline };
                Some(access.realm.pipelines.entering(&key).await.ok_or_else(unknown_pipeline)?)
            }
            None => None,
        };
        let keep = |secret: &Secret, batch: &mut Batch| {
            pending.map(|pending| {
                let view = SecretView::from(secret);
                let answer = idempotent::answer(StatusCode::CREATED, Some(url(&access, secret)), view);
                pending.keep(batch, &answer, now)
            })
        };
        Ok(access.realm.vault.create(organization, new, Cause::by(&access.agent(), now), keep).await?)
    });
    making.await.map_err(Problem::internal)?
}

fn unknown_pipeline() -> Problem {
    Problem::invalid_request(vec![FieldError { field: "pipelineId".to_owned(), message: UNKNOWN_PIPELINE.to_string() }])
}

pub async fn update(mut call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageSecrets)?;
    let Place { pipeline, name } = Place::of(&call)?;
    let mut fields = read_fields(&mut call).await?;
    if !fields.has("value") && !fields.has("description") {
        fields.wrong("value", "is required, or `description`");
    }
    let change = SecretChange {
        value: fields.text("value", SecretValue::parse),
        description: fields.text("description", Description::parse),
    };
    fields.finish()?;
    let expected = answer::expected_versions(call.request.headers());
    let (vault, organization) = (&access.realm.vault, &access.caller.organization);
    let agent = access.agent();
    let cause = Cause::by(&agent, (access.realm.clock)());
    let updating = vault.update(organization, pipeline.as_ref(), &name, change, expected, cause);
    let secret = done_within(access.node.answer_timeout, LOOK, updating).await?;
    told(&access, &secret, "a secret was changed");
    Ok(answer::with_etag(render(StatusCode::OK, &secret), &etag(&secret)))
}

pub async fn delete(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageSecrets)?;
    let Place { pipeline, name } = Place::of(&call)?;
    let expected = answer::expected_versions(call.request.headers());
    let (vault, organization) = (&access.realm.vault, &access.caller.organization);
    let agent = access.agent();
    let cause = Cause::by(&agent, (access.realm.clock)());
    let deleting = vault.delete(organization, pipeline.as_ref(), &name, expected, cause);
    if !done_within(access.node.answer_timeout, LOOK, deleting).await? {
        return Err(refusals::secret_not_found().into());
    }
    let by = &access.caller.person.name;
    tracing::info!(secret = %name, pipeline = pipeline.as_ref().map(Identifier::as_str), %by, "a secret was deleted");
    Ok(HttpResponse::NoContent().finish())
}

/// Which secret a request is about: by its path, and by the query whether it is a pipeline's or the organization's.
struct Place {
    pipeline: Option<Identifier>,
    name: VariableName,
}

impl Place {
    fn of(call: &Call) -> Result<Self, Problem> {
        let mut query = Query::of(&call.request);
        let pipeline = query.text("pipelineId", Identifier::parse);
        query.finish()?;
        let name = VariableName::parse(call.segment("name")).map_err(|_| refusals::secret_not_found())?;
        Ok(Self { pipeline, name })
    }
}

fn render(status: StatusCode, secret: &Secret) -> HttpResponse {
    answer::one(status, SecretView::from(secret))
}

fn etag(secret: &Secret) -> String {
    format!("\"{}\"", secret.version)
}

fn url(access: &Access, secret: &Secret) -> String {
    let place = format!("/api/v1/organizations/{}/secrets/{}", access.caller.organization, secret.name);
    match &secret.pipeline {
        Some(pipeline) => format!("{place}?pipelineId={pipeline}"),
        None => place,
    }
}

fn told(access: &Access, secret: &Secret, what: &str) {
    let pipeline = secret.pipeline.as_ref().map(Identifier::as_str);
    let by = &access.caller.person.name;
    tracing::info!(secret = %secret.name, pipeline, version = secret.version, %by, "{what}");
}
