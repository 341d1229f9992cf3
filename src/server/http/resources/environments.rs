//! Environments: view, history, create or change, delete, and the list of a pipeline's environments: a slice, or all of
//! them in bounded memory.

use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::http::header::{ETAG, LOCATION};
use actix_web::web::Bytes;
use futures_util::stream;

use crate::forms::{ConfigurationForm, EnvironmentName, Text, id_schema, texts};
use crate::http::access::Access;
use crate::http::answer::{self, Answered};
use crate::http::body::{finish, read_body, read_named};
use crate::http::call::Call;
use crate::http::clients::{self, Read};
use crate::http::codes::Code;
use crate::http::dto::{EnvironmentListItem, EnvironmentView, SessionView, WaiterView};
use crate::http::paging::{self, Page, Query, Slice, SlicePagination, moment};
use crate::http::problem::Problem;
use crate::http::refusals;
use accounts::auth::Permission;
use domain::{
    Configure, Delete, Environment, EnvironmentKey, Identifier, LABELS_MAX, LabelValue, LockStatus, Malformed, Period,
    PipelineKey, Session, TextRule, Timestamp,
};
use http1::{Response, json};
use locks::{ListFilter, Listed};

/// How often to read a history that is trimmed or deleted meanwhile. Trimming removes whole pages of the store, so each
/// retry means that a page's worth of sessions has ended since the last read.
const HISTORY_READS_MAX: usize = 16;

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let key = access.environment(&call)?;
    let wait = clients::wait_of(&call.request)?;
    let environments = &access.realm.environments;
    let read = || {
        let environment = environments.environment(&key)?.ok_or(Code::EnvironmentNotFound)?;
        Ok(Read { etag: etag(&environment), state: environment })
    };
    let watch = || environments.watch_environment(&key);
    let Read { state, etag } = clients::read_when_changed(&call.request, &access, wait, watch, read).await?;
    answer::tagged(call.request.headers(), &etag, || render(StatusCode::OK, &key, &state))
}

pub async fn queue(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let key = access.environment(&call)?;
    let slice = Slice::of(&call.request)?;
    let environment = access.realm.environments.environment(&key)?.ok_or(Code::EnvironmentNotFound)?;
    let queue = access.realm.environments.queue(&key, &environment);
    let shown = slice.part(queue.iter().enumerate());
    let views = shown.map(|(place, queued)| WaiterView::new(place + 1, queued)).collect();
    Ok(paging::slice(&call.request, slice, queue.len() as u64, views))
}

pub async fn history(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let key = access.environment(&call)?;
    let mut query = Query::of(&call.request);
    let page = Page::take(&mut query);
    let period = take_period(&mut query);
    query.finish()?;
    let history = read_history(&access, &key, page, period).await?;
    let name = Some(key.name.as_str());
    let sessions = history.items.iter().map(|session| SessionView::new(name, session, None)).collect();
    Ok(paging::page(&call.request, page, history.total, sessions))
}

/// `None` if the whole history is wanted.
fn take_period(query: &mut Query) -> Option<Period> {
    let (from, to) = (query.text("from", moment), query.text("to", moment));
    if from.zip(to).is_some_and(|(from, to)| from >= to) {
        query.wrong("from", "must be before `to`");
    }
    let (first, last) = (Timestamp::from_millis(i64::MIN), Timestamp::from_millis(i64::MAX));
    from.or(to).map(|_| Period { from: from.unwrap_or(first), to: to.unwrap_or(last) })
}

/// The page and its total, consistent with each other: reads again if sessions were deleted or trimmed meanwhile.
async fn read_history(
    access: &Access,
    key: &EnvironmentKey,
    page: Page,
    period: Option<Period>,
) -> Result<Listed<Session>, Problem> {
    let environments = &access.realm.environments;
    for _ in 0..HISTORY_READS_MAX {
        let environment = environments.environment(key)?.ok_or(Code::EnvironmentNotFound)?;
        let (reader, key_read) = (environments.clone(), key.clone());
        let read = move || match period {
            None => reader.history(&key_read, &environment, page.offset(), page.limit),
            Some(period) => reader.history_within(&key_read, &environment, period, page.offset(), page.limit),
        };
        if let Some(history) = access.read_list(read).await? {
            return Ok(history);
        }
        environments.caught_up(key).await?;
    }
    Err(Problem::overloaded("the history changed each time it was read"))
}

pub async fn put(mut call: Call) -> Answered {
    let mut access = Access::to(&call, Permission::ManageEnvironments)?;
    let pipeline = access.pipeline(&call)?.key.clone();
    Query::of(&call.request).finish()?;
    let body = read_body(&mut call, &mut access).await?;
    let element = body.element()?.unwrap_only("configuration");
    let (read, reader) = read_named::<EnvironmentName, ConfigurationForm>("envName", call.segment("envName"), &element);
    let (EnvironmentName(name), form) = finish(read, reader)?;
    let key = EnvironmentKey { pipeline, name };
    let configuration = form.configuration();
    let expected = answer::expected(call.request.headers());
    let _entering = access.realm.pipelines.entering(&key.pipeline).await.ok_or(Code::PipelineNotFound)?;
    access.check_again()?;
    let configured = access.environments().configure(&key, Configure { configuration, expected }).await?;
    let status = if configured.created { StatusCode::CREATED } else { StatusCode::OK };
    let response = render(status, &key, &configured.environment)?;
    let response = response.with(ETAG, etag(&configured.environment));
    Ok(if configured.created { response.with(LOCATION, url(&key, ["", ""])) } else { response })
}

pub async fn delete(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageEnvironments)?;
    let key = access.environment(&call)?;
    Query::of(&call.request).finish()?;
    let expected = answer::expected(call.request.headers());
    access.environments().ask(&key, Delete { expected }).await.map_err(refusals::not_deleted)?;
    Ok(Response::no_content())
}

/// Deletes an environment with a reserved name, which an earlier version of the server allowed.
pub async fn delete_reserved(call: Call) -> Answered {
    let access = Access::to(&call, Permission::ManageEnvironments)?;
    let key = access.environment(&call)?;
    match access.realm.environments.environment(&key)? {
        Some(_) => delete(call).await,
        None => Err(Problem::method_not_allowed("DELETE", "POST").into()),
    }
}

/// The path of an environment, or of something `below` it.
pub fn url(key: &EnvironmentKey, below: [&str; 2]) -> String {
    let PipelineKey { organization, pipeline } = &key.pipeline;
    let (organization, pipeline, name) = (organization.as_str(), pipeline.as_str(), key.name.as_str());
    let [place, id] = below;
    ["/api/v1/organizations/", organization, "/pipelines/", pipeline, "/ephemeral-environments/", name, place, id]
        .concat()
}

fn render(status: StatusCode, key: &EnvironmentKey, environment: &Environment) -> Answered {
    let configuration = environment.configuration.as_ref().ok_or(Code::EnvironmentNotFound)?;
    Ok(answer::one(status, EnvironmentView::new(key, environment, configuration)))
}

fn etag(environment: &Environment) -> String {
    let Environment { configuration_revision, revision, queue, .. } = environment;
    format!("\"{configuration_revision}.{revision}.{}\"", queue.len())
}

/// How many environments are in memory while all are listed.
const PIECE: usize = 250;
/// Approximate length of one environment in the response.
const ITEM_BYTES: usize = 400;
/// How many names a request may contain: as many as fit on a page.
pub const NAMES_MAX: usize = 100;

pub async fn list(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let pipeline = access.pipeline(&call)?.key.clone();
    let mut query = Query::of(&call.request);
    let filter = list_filter(&mut query);
    let slice = Slice::take_if_given(&mut query);
    query.finish()?;

    let Some(slice) = slice else { return all(access, pipeline, filter).await };
    let (environments, key) = (access.realm.environments.clone(), pipeline.clone());
    let page = access.read_list(move || environments.list(&key, &filter, slice.offset, slice.limit)).await?;
    let views = page.items.iter();
    let views = views.map(|(name, e)| EnvironmentListItem::new(pipeline.pipeline.as_str(), name.as_str(), e)).collect();
    Ok(paging::slice(&call.request, slice, page.total, views))
}

/// Lists all environments in pieces; each piece is read after the client has taken the previous one.
async fn all(access: Access, pipeline: PipelineKey, filter: ListFilter) -> Answered {
    let mut reader = Reader { access, pipeline, filter, after: None, written: 0, done: false };
    // The first piece is read before the response begins, so that most failures can still be reported as a problem.
    let first = reader.next_piece().await?;
    let pieces = stream::unfold((Some(first), reader), |(ready, mut reader)| async move {
        match ready {
            Some(piece) => Some((Ok(piece), (None, reader))),
            None if reader.done => None,
            None => Some((reader.next_piece().await, (None, reader))),
        }
    });
    Ok(Response::ok(answer::JSON).streaming(pieces))
}

struct Reader {
    access: Access,
    pipeline: PipelineKey,
    filter: ListFilter,
    after: Option<Identifier>,
    written: u64,
    done: bool,
}

impl Reader {
    async fn next_piece(&mut self) -> Result<Bytes, Problem> {
        let environments = self.access.realm.environments.clone();
        let (pipeline, filter, after) = (self.pipeline.clone(), self.filter.clone(), self.after.clone());
        let is_first = self.written == 0;
        // Serialized on the reading thread: so many environments would block the other requests of the caller's thread.
        let read = move || {
            let found = environments.list_after(&pipeline, &filter, after.as_ref(), PIECE)?;
            let text = written(&pipeline, &found, is_first)?;
            Ok::<_, Problem>((text, found.len(), found.into_iter().last().map(|(name, _)| name)))
        };
        let (mut text, count, last) = self.access.read_list(read).await?;
        self.written += count as u64;
        self.done = count < PIECE;
        self.after = last;
        if self.done {
            let pagination = SlicePagination::whole(self.written);
            text.extend_from_slice(br#"],"pagination":"#);
            json::write(&pagination, &mut text).map_err(Problem::internal)?;
            text.push(b'}');
        }
        Ok(text.into())
    }
}

fn written(
    pipeline: &PipelineKey,
    found: &[(Identifier, Arc<Environment>)],
    is_first: bool,
) -> Result<Vec<u8>, Problem> {
    let mut text = Vec::with_capacity(found.len() * ITEM_BYTES);
    if is_first {
        text.extend_from_slice(br#"{"data":["#);
    }
    for (place, (name, environment)) in found.iter().enumerate() {
        if place > 0 || !is_first {
            text.push(b',');
        }
        let view = EnvironmentListItem::new(pipeline.pipeline.as_str(), name.as_str(), environment);
        json::write(&view, &mut text).map_err(Problem::internal)?;
    }
    Ok(text)
}

/// A label that an environment must have: `key:value`.
pub struct Label(Identifier, LabelValue);

texts! {
    Label: parse_label, id_schema(&label_pattern(), "size:large");
}

fn parse_label(text: &str) -> Result<Label, Malformed> {
    let pair = text.split_once(':');
    let label = pair.and_then(|(key, value)| Some(Label(Identifier::parse(key).ok()?, LabelValue::parse(value).ok()?)));
    label.ok_or(Malformed("must have the form key:value"))
}

fn label_pattern() -> String {
    let pattern = |rule: TextRule| rule.pattern().unwrap_or_default();
    let (key, value) = (pattern(Identifier::RULE), pattern(LabelValue::RULE));
    format!("{}:{}", key.trim_end_matches('$'), value.trim_start_matches('^'))
}

fn list_filter(query: &mut Query) -> ListFilter {
    let lock_status = query.text("lockStatus", LockStatus::parse);
    let names = given(query, "envName", NAMES_MAX, Identifier::parse).into_iter().collect();
    let labels = given(query, "label", LABELS_MAX, Label::parse_text);
    ListFilter { lock_status, names, labels: labels.into_iter().map(|Label(key, value)| (key, value)).collect() }
}

/// The values of a parameter that may be given at most `max` times.
fn given<T>(query: &mut Query, name: &'static str, max: usize, parse: impl Fn(&str) -> Result<T, Malformed>) -> Vec<T> {
    let texts = query.all(name);
    if texts.len() > max {
        query.wrong(name, format!("must be given at most {max} times"));
    }
    let values = texts.iter().map(|text| parse(text).map_err(|malformed| query.wrong(name, malformed.to_string())));
    values.filter_map(Result::ok).collect()
}
