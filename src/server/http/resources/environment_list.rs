//! The list of a pipeline's environments: a slice, or all of it, in bounded memory.

use std::sync::Arc;

use actix_web::web::Bytes;
use futures_util::stream;

use crate::forms::{Text, id_schema, texts};
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::call::Call;
use crate::http::dto::EnvironmentListItem;
use crate::http::paging::{Query, Slice, SlicePagination};
use crate::http::problem::Problem;
use crate::http::response::Response;
use crate::http::{answer, json, paging};
use accounts::auth::Permission;
use domain::{Environment, Identifier, LABELS_MAX, LabelValue, LockStatus, Malformed, PipelineKey, TextRule};
use locks::ListFilter;

/// How many environments are in memory at once while all are listed.
const PIECE: usize = 250;
/// About as long as one is in the answer.
const ITEM_BYTES: usize = 400;
/// How many names a request may list: as many as fit on a page.
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

/// All of them, in pieces: each is read once the client has taken the one before.
async fn all(access: Access, pipeline: PipelineKey, filter: ListFilter) -> Answered {
    let mut reader = Reader { access, pipeline, filter, after: None, written: 0, done: false };
    // The first piece is read before the answer begins, so that most failures still become a problem.
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
        // Written where it is read: so many at once would keep the other requests of the caller's thread waiting.
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
    let mut filter = ListFilter { lock_status, ..ListFilter::default() };
    let names = query.all("envName");
    if names.len() > NAMES_MAX {
        query.wrong("envName", format!("must be given at most {NAMES_MAX} times"));
    }
    for name in names {
        match Identifier::parse(&name) {
            Ok(name) => _ = filter.names.insert(name),
            Err(malformed) => query.wrong("envName", malformed.to_string()),
        }
    }
    let labels = query.all("label");
    if labels.len() > LABELS_MAX {
        query.wrong("label", format!("must be given at most {LABELS_MAX} times"));
    }
    for label in labels {
        match Label::parse_text(&label) {
            Ok(Label(key, value)) => filter.labels.push((key, value)),
            Err(malformed) => query.wrong("label", malformed.to_string()),
        }
    }
    filter
}
