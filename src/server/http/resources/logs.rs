//! The log of a deployment: all of it, a page, or followed while it is written; as text or JSON lines. Memory is
//! bounded, regardless of the log's length and the client's speed. In a cluster, other nodes may have written parts of
//! it.

use std::borrow::Cow;
use std::io::{self, Write};
use std::pin::pin;

use actix_web::http::header::HeaderName;
use actix_web::http::{Method, StatusCode};
use actix_web::web::Bytes;
use futures_util::stream;
use tokio::sync::watch;

use super::deployments::{deployment_id, find};
use crate::forms::choices;
use crate::http::access::Access;
use crate::http::answer::Answered;
use crate::http::call::{Call, Front};
use crate::http::clients::{Waited, bare, while_connected};
use crate::http::codes::Code;
use crate::http::dto::{Time, view};
use crate::http::paging::{self, PLACE_MAX, Query};
use crate::http::problem::Problem;
use crate::http::refusals;
use accounts::auth::Permission;
use delivery::archive::{PART_BYTES_MAX, Unavailable};
use delivery::logs::{Line, LogId, LogReader, Logs};
use domain::named::named_enum;
use domain::{DeploymentId, Identifier};
use http1::{Request, Response};
use locks::Watch;
use shares::Permit;
use store::StoreError;

/// The header with the offset of the next page, spelled as in the OpenAPI document.
pub const NEXT_OFFSET: &str = "Lockkeeper-Next-Offset";
const NEXT_OFFSET_HEADER: HeaderName = HeaderName::from_static("lockkeeper-next-offset");

pub async fn view(call: Call) -> Answered {
    let access = Access::to(&call, Permission::Read)?;
    let id = deployment_id(&call)?;
    let mut parameters = Query::of(&call.request);
    let query = LogQuery::take(&mut parameters);
    parameters.finish()?;
    find(&access, id)?;
    let log = brought(&access, id).await?;
    let source = LogSource::new(access.node.logs.clone(), log, query);
    let response =
        if source.query.follow { follow(&call, access, source)? } else { page(&call, access, source).await? };
    Ok(response)
}

/// The log so far, or a page of it.
async fn page(call: &Call, access: Access, source: LogSource) -> Answered {
    let (mut source, end) = source.with_end(&access).await?;
    source.until = end.next;
    let response = answer(&source.query).with(NEXT_OFFSET_HEADER, end.next.to_string());
    let limit = source.query.limit;
    let pieces = stream::try_unfold((access, source), |(access, source)| async move {
        let (source, piece) = source.next_piece(&access).await?;
        // Access is checked again because a long log takes time. A response that is cut off cannot be mistaken for a
        // complete one.
        access.check_again()?;
        Ok::<_, Problem>((!piece.is_empty()).then_some((piece, (access, source))))
    });
    let response = match *call.request.method() {
        Method::HEAD => bare(response),
        _ => response.streaming(pieces),
    };
    Ok(match limit.filter(|_| end.more) {
        Some(limit) => paging::linked_to_next(&call.request, limit, end.next, response),
        None => response,
    })
}

/// The log so far, and further lines until the deployment finishes, the client disconnects or loses its access, or the
/// server stops.
fn follow(call: &Call, access: Access, source: LogSource) -> Answered {
    let response = answer(&source.query);
    if call.request.method() == Method::HEAD {
        return Ok(bare(response));
    }
    let holder = Some(access.caller.holder());
    let place = access.node.log_followers.try_acquire_for(&access.caller.organization, holder).map_err(|refused| {
        Problem::overloaded(&format!(
            "too many clients follow a log: {refused}; close some, or read the log without `follow`"
        ))
    })?;
    let held = access.hold_connection()?;
    let follower = Follower {
        request: call.request.clone(),
        id: source.log.deployment,
        // Both watches begin before the first read, so that nothing is missed.
        written: access.node.logs.watch(source.log.deployment),
        changes: access.realm.environments.watch_deployment(source.log.deployment),
        access,
        source: Some(source),
        has_finished: false,
        _place: place,
        _held: held,
    };
    let pieces = stream::try_unfold(follower, |mut follower| async move {
        let (request, access) = (follower.request.clone(), follower.access.clone());
        let waited = while_connected(&request, &access, true, pin!(follower.next_piece())).await;
        match waited {
            Waited::There(piece) => Ok(piece?.map(|piece| (piece, follower))),
            Waited::TooLate(_) | Waited::Gone | Waited::Revoked(..) => Ok::<_, Problem>(None),
        }
    });
    Ok(response.streaming(pieces))
}

fn answer(query: &LogQuery) -> Response {
    Response::ok(match query.format {
        Format::Text => "text/plain; charset=utf-8",
        Format::Json => "application/x-ndjson",
    })
}

/// A client that follows a log.
struct Follower {
    access: Access,
    request: Request,
    id: DeploymentId,
    /// `None` while a piece is being read.
    source: Option<LogSource>,
    written: watch::Receiver<u64>,
    changes: Watch,
    /// Set before the last read of the log, after which the log does not grow.
    has_finished: bool,
    _place: Permit,
    _held: Option<Permit>,
}

impl Follower {
    /// `None` at the end.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, Problem> {
        while let Some(mut source) = self.source.take() {
            // A new part may have begun.
            source.log = log(&self.access, self.id)?;
            let (source, piece) = source.next_piece(&self.access).await?;
            if !piece.is_empty() {
                self.source = Some(source);
                return Ok(Some(piece));
            }
            if source.left == 0 || self.has_finished || !self.wait().await? {
                break;
            }
            self.source = Some(source);
        }
        Ok(None)
    }

    /// Waits until there may be more to read; false if the server stops.
    async fn wait(&mut self) -> Result<bool, Problem> {
        let environments = &self.access.realm.environments;
        let found = environments.deployment(&self.access.caller.organization, self.id)?;
        self.has_finished = found.is_none_or(|found| found.record.deployment.status.is_finished());
        if self.has_finished {
            return Ok(true);
        }
        tokio::select! {
            _ = self.written.changed() => Ok(true),
            () = self.changes.changed() => Ok(true),
            () = environments.closed() => Ok(false),
        }
    }
}

pub const LINES_MAX: u64 = 100_000;
/// The size of a piece, which is also about how much is buffered for a client that does not read.
const PIECE_BYTES: usize = 32 * 1024;

named_enum! {
    pub enum Format {
        Text = "text",
        Json = "json",
    }
}

choices! {
    Format as "LogFormat": "`text`: the output as written; `json`: an object per line.";
}

/// The query parameters: which lines, in which format.
pub struct LogQuery {
    pub format: Format,
    pub offset: u64,
    pub limit: Option<u64>,
    pub follow: bool,
    stage: Option<Identifier>,
    step: Option<Identifier>,
}

impl LogQuery {
    pub fn take(query: &mut Query) -> Self {
        Self {
            format: query.text("format", Format::parse).unwrap_or(Format::Text),
            offset: query.number("offset", 0, PLACE_MAX).unwrap_or(0),
            limit: query.number("limit", 1, LINES_MAX),
            follow: query.choice("follow", &[false, true], |b| if b { "true" } else { "false" }).unwrap_or(false),
            stage: query.text("stage", Identifier::parse),
            step: query.text("step", Identifier::parse),
        }
    }

    fn has(&self, line: &Line) -> bool {
        let section = line.section.as_deref();
        let is = |asked: &Option<Identifier>, name: Option<&str>| {
            asked.as_ref().is_none_or(|asked| name == Some(asked.as_str()))
        };
        is(&self.stage, section.map(|section| &*section.stage)) && is(&self.step, section.map(|section| &*section.step))
    }

    fn write(&self, line: &Line, piece: &mut Vec<u8>) -> io::Result<()> {
        match self.format {
            Format::Text => piece.extend_from_slice(&line.bytes),
            Format::Json => serde_json::to_writer(&mut *piece, &LineView::new(line))?,
        }
        let ends = self.format == Format::Json || line.ends_line;
        if ends { piece.write_all(b"\n") } else { Ok(()) }
    }
}

/// The end of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageEnd {
    pub next: u64,
    pub more: bool,
}

/// A log that is read piece by piece, on threads that may block.
pub struct LogSource {
    logs: Logs,
    pub log: LogId,
    pub query: LogQuery,
    /// `None` before the first piece.
    reader: Option<LogReader>,
    /// The number of the first line after the requested ones.
    pub until: u64,
    /// How many requested lines are left.
    pub left: u64,
}

impl LogSource {
    pub fn new(logs: Logs, log: LogId, query: LogQuery) -> Self {
        let left = query.limit.unwrap_or(u64::MAX);
        Self { logs, log, query, reader: None, until: u64::MAX, left }
    }

    /// Reads the page once in advance, since the response headers contain its end.
    fn end_of_page(&self) -> io::Result<PageEnd> {
        let mut next = self.query.offset;
        let mut reader = self.logs.read(&self.log, next);
        let mut left = self.left;
        while let Some(line) = reader.next_line()? {
            let shown = self.query.has(&line);
            if shown && left == 0 {
                return Ok(PageEnd { next, more: true });
            }
            left -= u64::from(shown);
            // A full page ends after its last shown line, any other at the end of the log.
            if shown || left > 0 {
                next = line.number + 1;
            }
        }
        Ok(PageEnd { next, more: false })
    }

    /// Determines the end of the page, and returns the source to read it from.
    pub async fn with_end(self, access: &Access) -> Result<(Self, PageEnd), Problem> {
        let read = move || {
            let end = self.end_of_page();
            end.map(|end| (self, end)).map_err(|error| StoreError::Read(error.to_string()))
        };
        access.node.log_reads.read(&access.caller.organization, Some(access.caller.holder()), read).await
    }

    /// Empty at the current end of the log.
    pub async fn next_piece(mut self, access: &Access) -> Result<(Self, Bytes), Problem> {
        let read = move || {
            let piece = self.read_piece();
            Ok::<_, StoreError>((self, piece))
        };
        let (source, piece) =
            access.node.log_reads.read(&access.caller.organization, Some(access.caller.holder()), read).await?;
        match piece {
            Ok(piece) => Ok((source, piece.into())),
            Err(error) => {
                // The response has begun, so the client cannot be told.
                tracing::error!(deployment = %source.log.deployment, %error, "a log could not be read to its end");
                Err(Problem::internal(error))
            }
        }
    }

    fn read_piece(&mut self) -> io::Result<Vec<u8>> {
        let mut piece = Vec::new();
        let reader = self.reader.get_or_insert_with(|| self.logs.read(&self.log, self.query.offset));
        self.logs.extend(reader, &self.log);
        while self.left > 0 && piece.len() < PIECE_BYTES && reader.passed() < self.until {
            let Some(line) = reader.next_line()? else { break };
            if line.number < self.until && self.query.has(&line) {
                self.query.write(&line, &mut piece)?;
                self.left -= 1;
            }
        }
        Ok(piece)
    }
}

view! {
    /// A line of a log.
    pub struct LineView<'a> as LogLine of (line: &'a Line)
    let section = line.section.as_deref();
    {
        /// The number of the line, from 0.
        #[schema(example = 7)]
        line: u64 = line.number,
        /// When the line was written.
        at: Time = Time(line.at),
        /// The stage that wrote the line; null for a remark of the server before the first step.
        #[schema(example = "build")]
        stage: Option<&'a str> = section.map(|section| &*section.stage),
        /// The step that wrote the line, or null.
        #[schema(example = "compile")]
        step: Option<&'a str> = section.map(|section| &*section.step),
        /// The attempt of the stage, or null.
        #[schema(example = 1)]
        attempt: Option<u32> = section.map(|section| section.attempt),
        /// The text without its line break; bytes that are not UTF-8 are replaced.
        #[schema(value_type = String, example = "compiling basket")]
        text: Cow<'a, str> = String::from_utf8_lossy(&line.bytes),
        /// Whether the next entry continues the same line, which was too long or written in pieces.
        #[schema(example = false)]
        partial: bool = !line.ends_line,
    }
}

/// A node that has crashed is usually back within a minute.
const RETRIED_AFTER_SECONDS: u64 = 60;

/// The deployment's log, with the parts that this node has.
pub fn log(access: &Access, id: DeploymentId) -> Result<LogId, Problem> {
    let organization = &access.caller.organization;
    let parts = access.realm.environments.log_parts(organization, id)?;
    Ok(LogId::of(organization, id, parts.iter().map(|part| part.number)))
}

/// The deployment's log, after fetching all its parts to this node.
pub async fn brought(access: &Access, id: DeploymentId) -> Result<LogId, Problem> {
    let organization = &access.caller.organization;
    let parts = access.realm.environments.log_parts(organization, id)?;
    let brought = access.node.archive.bring(organization, id, &parts).await;
    // Fetching may have taken a while.
    access.check_again()?;
    brought.map_err(|unavailable| match unavailable {
        Unavailable::Busy(_) => Problem::overloaded(&unavailable.to_string()),
        Unavailable::Node { .. } | Unavailable::Store { .. } | Unavailable::NoRoom => {
            Problem::new(Code::LogUnavailable, unavailable.to_string()).retry_after(RETRIED_AFTER_SECONDS)
        }
        Unavailable::Disk(error) => Problem::internal(error),
    })
}

/// Serves a piece of a log part of this node to the shard's owner, which has authorised the reader; 204 if this node
/// does not have it.
pub async fn part(call: Call<Front>) -> Answered {
    let unknown = || refusals::route_not_found(call.request.path());
    let organization = Identifier::parse(call.segment("organization")).map_err(|_| unknown())?;
    let deployment: DeploymentId = call.segment("deployment").parse().map_err(|_| unknown())?;
    let number = call.segment("part").parse().map_err(|_| unknown())?;
    let mut parameters = Query::of(&call.request);
    let from = parameters.number("from", 0, PLACE_MAX).unwrap_or(0);
    parameters.finish()?;
    let logs = call.app.node.logs.clone();
    let file = logs.file(&organization, deployment, number);
    let read = move || logs.bytes(&file, from, PART_BYTES_MAX).map_err(|error| StoreError::Read(error.to_string()));
    Ok(match call.app.node.log_reads.read(&organization, None, read).await? {
        Some(bytes) => Response::ok("application/octet-stream").body(bytes),
        None => Response::new(StatusCode::NO_CONTENT),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tempfile::TempDir;

    use super::*;
    use delivery::logs::Section;
    use domain::{DeploymentId, IdSeed, Timestamp};

    const ID: DeploymentId = DeploymentId(IdSeed([7; 12]));

    /// Lines of two stages alternately, some of them in pieces.
    fn acme() -> Identifier {
        Identifier::parse("acme").unwrap()
    }

    fn logs() -> (TempDir, Logs) {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::open(folder.path(), u64::MAX).unwrap();
        let at = Timestamp::from_millis(1_794_735_000_123);
        let mut writer = logs.append(&acme(), ID).unwrap();
        writer.remark(at, "hello");
        for (stage, texts) in [("build", &["a\n", "b\n"][..]), ("test", &["c\n", "d"]), ("build", &["e\n", "f"])] {
            let section = Section { stage: stage.into(), step: "step-1".into(), attempt: 1 };
            let mut step = writer.step(section, u64::MAX);
            for text in texts {
                step.write(at, text.as_bytes());
                step.idle(at);
            }
            writer = step.finish(at);
        }
        (folder, logs)
    }

    fn wanted(query: &str) -> LogQuery {
        let request = Request::get(&format!("/?{query}")).unwrap();
        let mut query = Query::of(&request);
        let wanted = LogQuery::take(&mut query);
        query.finish().unwrap();
        wanted
    }

    /// A page as in a response: its text, where the next one begins, and whether there is more.
    fn page(logs: &Logs, query: &str) -> (String, u64, bool) {
        let mut source = LogSource::new(logs.clone(), LogId::whole(&acme(), ID), wanted(query));
        let end = source.end_of_page().unwrap();
        source.until = end.next;
        let mut shown = Vec::new();
        loop {
            let piece = source.read_piece().unwrap();
            if piece.is_empty() {
                return (String::from_utf8_lossy(&shown).into_owned(), end.next, end.more);
            }
            shown.extend(piece);
        }
    }

    #[test]
    fn pages_one_after_the_other_are_the_whole_log() {
        let (_folder, logs) = logs();
        let (whole, end, more) = page(&logs, "");
        assert!(!more && whole.starts_with("lockkeeper: hello\na\n"), "{whole}");
        for (limit, filter) in (1..=end + 1).flat_map(|limit| [(limit, ""), (limit, "&stage=build")]) {
            let expected = page(&logs, filter.trim_start_matches('&')).0;
            let (mut text, mut offset) = (String::new(), 0);
            loop {
                let (shown, next, more) = page(&logs, &format!("limit={limit}&offset={offset}{filter}"));
                text += &shown;
                assert!(next > offset || !more, "{next} after {offset}");
                offset = next;
                if !more {
                    break;
                }
            }
            assert_eq!(text, expected, "limit {limit}{filter}");
        }
        assert_eq!(page(&logs, "offset=1000"), (String::new(), 1000, false));
    }

    #[test]
    fn filters_show_the_lines_of_a_stage_or_a_step() {
        let (_folder, logs) = logs();
        assert!(page(&logs, "stage=test").0.starts_with("c\nd"));
        assert_eq!(page(&logs, "stage=deploy").0, "");
        assert_eq!(page(&logs, "stage=test&step=step-1").0, page(&logs, "stage=test").0);
        assert!(!page(&logs, "step=step-1").0.contains("hello"), "a remark before the first step is of none");
    }

    #[test]
    fn as_json_every_line_is_an_object_of_its_own() {
        let (_folder, logs) = logs();
        let (text, end, _) = page(&logs, "format=json");
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len() as u64, end);
        assert_eq!(lines[0]["text"], "lockkeeper: hello");
        assert_eq!(lines[0]["stage"], serde_json::Value::Null);
        assert_eq!((&lines[1]["line"], &lines[1]["at"]), (&1.into(), &"2026-11-15T09:30:00.123Z".into()));
        assert_eq!(
            (&lines[1]["stage"], &lines[1]["step"], &lines[1]["attempt"]),
            (&"build".into(), &"step-1".into(), &1.into())
        );
        assert_eq!((&lines[1]["text"], &lines[1]["partial"]), (&"a".into(), &false.into()));
    }

    #[test]
    fn a_deployment_without_a_log_has_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::open(folder.path(), u64::MAX).unwrap();
        assert_eq!(page(&logs, ""), (String::new(), 0, false));
        assert_eq!(page(&logs, "limit=1&offset=3"), (String::new(), 3, false));
    }

    #[test]
    fn what_is_written_later_belongs_to_the_next_page() {
        let (_folder, logs) = logs();
        let mut source = LogSource::new(logs.clone(), LogId::whole(&acme(), ID), wanted(""));
        source.until = source.end_of_page().unwrap().next;
        logs.append(&acme(), ID).unwrap().remark(Timestamp::from_millis(0), "later");
        let before = String::from_utf8_lossy(&source.read_piece().unwrap()).into_owned();
        assert!(!before.contains("later") && source.read_piece().unwrap().is_empty());
        assert!(page(&logs, &format!("offset={}", source.until)).0.contains("later"));
    }
}
