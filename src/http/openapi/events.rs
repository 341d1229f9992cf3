//! The operations on events.

use serde_json::json;

use super::operation::Operation;
use super::parameters::time;
use crate::domain::{DeploymentId, EventType, Identifier, SessionId, UserId};
use crate::http::codes::Code;
use crate::http::dto::EventView;
use crate::http::resources::events::{LAST_EVENT_ID, START};

const EVENTS: &str = "Events";

pub fn list_events() -> Operation {
    let operation = Operation::api(EVENTS, "listEvents").about(
        "Every change in the organization, newest first, with its actor, token and request. The operator sets how \
         long and how many are kept.",
    );
    filtered(operation).lists::<EventView<'_>>("The events")
}

pub fn get_event() -> Operation {
    Operation::api(EVENTS, "getEvent")
        .about("One change in the organization.")
        .answers::<EventView<'_>>(200, "The event", &[])
        .fails(&[Code::EventNotFound])
}

pub fn stream_events() -> Operation {
    let content = json!({ "text/event-stream": { "schema": { "type": "string" } } });
    let operation = Operation::api(EVENTS, "streamEvents").about(
        "Server-sent events: each has its `id`, its type as `event`, and as `data` what Get Event answers, in one \
         line. It begins with what comes from now on, or after the event that `Last-Event-ID` names: without a gap \
         and nothing twice, also when the server has started again meanwhile. If that event is no longer kept \
         (`expired`), or never was one of this organization (`unknown`), the first is a `reset`, with `{reason, \
         firstEventId}` as its data, the oldest that is kept, and the stream goes on with what comes from now on. \
         In silence it sends comments. It ends with the server, with the token, and when its client falls behind: \
         come again. `retry` comes with the first event, and there is no block without data. The answer's \
         `Last-Event-ID` is where the stream begins: send it to come again before the first event.",
    );
    let id = json!({ "type": "string", "maxLength": 256 });
    filtered(operation)
        .query_by("lastEventId", "The same as the header, which wins", id)
        .header(LAST_EVENT_ID, &format!("The id of the last event seen, or `{START}`: all that are kept"))
        .answers_content(200, "The events", content, &[LAST_EVENT_ID])
}

fn filtered(operation: Operation) -> Operation {
    operation
        .query_by("type", "Only of these types (see `EventFilter`): with commas, given several times, or a whole group like `session.*`", json!({ "type": "string", "pattern": types_pattern() }))
        .query_by(
            "actor",
            "Only by this user, or by the `system`",
            json!({ "type": "string", "pattern": actor_pattern() }),
        )
        .query::<Identifier>("pipelineId", "Only in this pipeline")
        .query::<Identifier>("envName", "Only in environments of this name")
        .query::<SessionId>("sessionId", "Only of this session")
        .query::<DeploymentId>("deploymentId", "Only of this deployment")
        .query_by("since", "Only from this time on", time())
        .query_by("until", "Only before this time", time())
}

/// Names and groups, with commas between them.
fn types_pattern() -> String {
    let names = EventType::ALL.iter().map(|event_type| event_type.as_str().replace('.', r"\."));
    let mut groups: Vec<_> =
        EventType::ALL.iter().filter_map(|event_type| event_type.as_str().split('.').next()).collect();
    groups.dedup();
    let groups = groups.into_iter().map(|group| format!(r"{group}\.\*"));
    let one = names.chain(groups).collect::<Vec<_>>().join("|");
    format!("^({one})(,({one}))*$")
}

fn actor_pattern() -> String {
    format!("{}|^system$", UserId::PATTERN)
}
