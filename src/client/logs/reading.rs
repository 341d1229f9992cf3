//! Reads a log to its end, or to the deployment's end, through broken connections and restarts of the server.

use serde_json::Value;

use super::approvals;
use super::printing::Printer;
use crate::api::{Api, CallError};
use crate::failure::Failure;
use crate::output::closing::reader_gone;
use crate::output::text_of;
use crate::retry;
use crate::retrying::Retrying;
use crate::steady::Moment;

/// A line of a log is at most this long as JSON; the server cuts lines long before.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Which lines.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    pub deployment: String,
    pub stage: Option<String>,
    pub step: Option<String>,
    pub follow: bool,
}

impl LogQuery {
    fn path(&self, offset: u64) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("format", "json").append_pair("offset", &offset.to_string());
        if self.follow {
            query.append_pair("follow", "true");
        }
        for (name, value) in [("stage", &self.stage), ("step", &self.step)] {
            value.iter().for_each(|value| {
                query.append_pair(name, value);
            });
        }
        format!("/deployments/{}/logs?{}", self.deployment, query.finish())
    }
}

/// Prints the log. If it is followed, the deployment as it ended.
pub async fn print(api: &Api, query: &LogQuery, printer: &mut Printer) -> Result<Option<Value>, Failure> {
    if !query.follow {
        return read(api, query, printer).await;
    }
    // The log of a deployment that waits for an approval is silent: say why.
    tokio::select! {
        ended = read(api, query, printer) => ended,
        never = approvals::announce(api, &query.deployment) => match never {},
        () = reader_gone() => Err(Failure::OutputClosed),
    }
}

async fn read(api: &Api, query: &LogQuery, printer: &mut Printer) -> Result<Option<Value>, Failure> {
    let retrying = Retrying::new(api.patience(), format!("waiting for an answer of {}", api.url()));
    tokio::select! {
        ended = read_on(api, query, printer, &retrying) => ended,
        never = retrying.show() => match never {},
    }
}

async fn read_on(
    api: &Api,
    query: &LogQuery,
    printer: &mut Printer,
    retrying: &Retrying,
) -> Result<Option<Value>, Failure> {
    let mut patience = Patience::new(api, retrying);
    loop {
        match read_once(api, query, printer, &mut patience).await {
            Ok(()) if !query.follow => {
                printer.finish()?;
                return Ok(None);
            }
            Ok(()) => {
                let deployment = api.get(&format!("/deployments/{}", query.deployment)).await?.data;
                if matches!(text_of(&deployment, "status"), "succeeded" | "failed" | "cancelled") {
                    printer.finish()?;
                    return Ok(Some(deployment));
                }
                // The server is stopping, or has just started again: go on where it was.
                retrying.failed(format!("{} closed the log before the deployment ended", api.url()));
                patience.pause().await;
            }
            Err(ReadError::Output(failure)) => return Err(failure),
            Err(ReadError::Call(error)) => patience.bear(error).await?,
        }
    }
}

enum ReadError {
    Call(CallError),
    Output(Failure),
}

/// Until the stream ends.
async fn read_once(
    api: &Api,
    query: &LogQuery,
    printer: &mut Printer,
    patience: &mut Patience<'_>,
) -> Result<(), ReadError> {
    let mut stream = api.stream(&query.path(printer.next), None, patience.retrying).await.map_err(ReadError::Call)?;
    patience.renew();
    let mut unfinished: Vec<u8> = Vec::new();
    while let Some(piece) = stream.next().await.map_err(ReadError::Call)? {
        unfinished.extend_from_slice(&piece);
        if let Some(end) = unfinished.iter().rposition(|byte| *byte == b'\n') {
            printer.print(&unfinished[..=end]).map_err(ReadError::Output)?;
            unfinished.drain(..=end);
        }
        if unfinished.len() > LINE_BYTES_MAX {
            let words = "the server sent a line of a log without an end".to_owned();
            return Err(ReadError::Output(Failure::Unreachable(words)));
        }
    }
    Ok(())
}

/// How long troubles are borne: as long as a request is repeated, since the last time that the server answered.
struct Patience<'a> {
    retrying: &'a Retrying,
    all: std::time::Duration,
    answered: Moment,
    attempt: u32,
}

impl<'a> Patience<'a> {
    fn new(api: &Api, retrying: &'a Retrying) -> Self {
        Self { retrying, all: api.patience(), answered: Moment::now(), attempt: 0 }
    }

    fn renew(&mut self) {
        self.retrying.succeeded();
        (self.answered, self.attempt) = (Moment::now(), 0);
    }

    async fn pause(&mut self) {
        tokio::time::sleep(retry::pause(self.attempt, None, rand::random())).await;
        self.attempt = self.attempt.saturating_add(1);
    }

    /// Waits before the next attempt, unless there should be none.
    async fn bear(&mut self, error: CallError) -> Result<(), Failure> {
        if !error.is_passing() || Moment::now().since(self.answered) > self.all {
            return Err(error.into());
        }
        self.retrying.failed(error.to_string());
        self.pause().await;
        Ok(())
    }
}
