//! A step that is a request: sent once, its answer's status judged, its body logged.

use std::error::Error;
use std::sync::OnceLock;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, Response, Url, redirect};

use super::output::StepOutput;
use super::step::{Limits, Outcome, Scene, StepEnd, Will, until};
use super::substitute::{in_json, percent_encoded, substituted};
use crate::domain::HttpCall;

/// As much of an answer as helps to see what went wrong.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Made when the first request is sent.
#[derive(Default)]
pub(super) struct HttpClient(OnceLock<Result<Client, String>>);

impl HttpClient {
    fn get(&self) -> Result<&Client, String> {
        self.0.get_or_init(make_client).as_ref().map_err(Clone::clone)
    }
}

fn make_client() -> Result<Client, String> {
    // Fails only if one is installed already, which is as good.
    rustls::crypto::ring::default_provider().install_default().ok();
    // What a step calls is what it names: no redirects elsewhere, no proxy of the server's own environment. And nothing
    // is kept open, since the next call may be hours away.
    let client = Client::builder().redirect(redirect::Policy::none()).no_proxy().pool_max_idle_per_host(0).build();
    client.map_err(|error| format!("could not be prepared: {}", causes(&error)))
}

pub(super) async fn run(
    client: &HttpClient,
    call: &HttpCall,
    scene: &Scene,
    limits: &Limits,
    output: StepOutput,
) -> (StepEnd, StepOutput) {
    let prepared = client.get().and_then(|client| Ok((client, prepare(client, call, scene)?)));
    let (client, Prepared { request, shown }) = match prepared {
        Ok(prepared) => prepared,
        Err(reason) => return (StepEnd::of(Outcome::Failed(reason)), output),
    };
    let output = write(output, shown.into_bytes()).await;
    let answer = tokio::select! {
        biased;
        () = until(limits.will.clone(), Will::Stop) => Err(Outcome::Stopped),
        () = tokio::time::sleep_until(limits.deadline) => Err(Outcome::TimedOut),
        answer = exchange(client, request) => answer.map_err(Outcome::Failed),
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(outcome) => return (StepEnd::of(outcome), output),
    };
    let as_expected = match &call.expect_status[..] {
        [] => (200..300).contains(&answer.status),
        expected => expected.contains(&answer.status),
    };
    let outcome = if as_expected {
        Outcome::Succeeded
    } else {
        Outcome::Failed(format!("was answered with status {}", answer.status))
    };
    (StepEnd::of(outcome), write(output, answer.text).await)
}

struct Prepared {
    request: Request,
    /// For the log.
    shown: String,
}

fn prepare(client: &Client, call: &HttpCall, scene: &Scene) -> Result<Prepared, String> {
    let fill = |text: &str| substituted(text, &scene.variables, str::to_owned).map_err(unprepared);
    let method = Method::from_bytes(call.method.as_bytes()).map_err(|_| unprepared("it has no valid method"))?;
    let url = substituted(&call.url, &scene.variables, percent_encoded).map_err(unprepared)?;
    if has_dot_segment(&url) {
        return Err(unprepared("the path of its URL has `.` or `..` between slashes, which would lead elsewhere"));
    }
    let parsed = Url::parse(&url).map_err(|error| unprepared(format!("its URL is not valid: {error}")))?;
    let shown = format!("{method} {}\n", shown(&url));
    // Credentials of the URL become a header here.
    let request = client.request(method, parsed).build();
    let mut request = request.map_err(|error| unprepared(causes(&error.without_url())))?;
    for (name, value) in &call.headers {
        let invalid = || unprepared(format!("its header `{name}` has characters that a header cannot have"));
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let mut value = HeaderValue::from_bytes(fill(value)?.as_bytes()).map_err(|_| invalid())?;
        value.set_sensitive(true);
        if key == AUTHORIZATION {
            request.headers_mut().remove(&key);
        }
        request.headers_mut().append(key, value);
    }
    if let Some(body) = &call.body {
        // Whoever may choose a commit must not choose what else the body says.
        let body = if is_json(&request) {
            substituted(body, &scene.variables, in_json).map_err(unprepared)?
        } else {
            fill(body)?
        };
        *request.body_mut() = Some(body.to_string().into());
    }
    Ok(Prepared { request, shown })
}

fn is_json(request: &Request) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

fn unprepared(reason: impl std::fmt::Display) -> String {
    format!("could not be prepared: {reason}")
}

/// Encoding does not help against these: a parser of URLs resolves them however they are written, and whoever may choose
/// a commit could choose where the request goes.
fn has_dot_segment(url: &str) -> bool {
    let (_, path) = place(url);
    let is_dots = |segment: &str| matches!(&*segment.to_ascii_lowercase().replace("%2e", "."), "." | "..");
    path.split(['/', '\\']).any(is_dots)
}

/// Without what may carry a secret by itself: credentials and the query. As it was put together and not as it was parsed,
/// which would change the case of a secret in the host and so hide it from the mask.
fn shown(url: &str) -> String {
    let (authority, path) = place(url);
    let scheme = url.split("://").next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

/// Its authority and its path.
fn place(url: &str) -> (&str, &str) {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    rest.split_at(rest.find(['/', '\\']).unwrap_or(rest.len()))
}

struct Answer {
    status: u16,
    /// For the log.
    text: Vec<u8>,
}

/// Otherwise why there is no answer, as the end of a sentence.
async fn exchange(client: &Client, request: Request) -> Result<Answer, String> {
    let mut response =
        client.execute(request).await.map_err(|error| format!("got no answer: {}", causes(&error.without_url())))?;
    let status = response.status();
    let mut text = format!("{:?} {status}\n", response.version()).into_bytes();
    let broken = read_body(&mut response, &mut text).await.err();
    if text.last() != Some(&b'\n') {
        text.push(b'\n');
    }
    match broken {
        None => Ok(Answer { status: status.as_u16(), text }),
        Some(error) => Err(format!("got an answer that broke off: {}", causes(&error.without_url()))),
    }
}

async fn read_body(response: &mut Response, text: &mut Vec<u8>) -> reqwest::Result<()> {
    let mut left = ANSWER_BYTES_MAX;
    while left > 0
        && let Some(piece) = response.chunk().await?
    {
        let kept = piece.len().min(left);
        text.extend_from_slice(&piece[..kept]);
        left -= kept;
    }
    Ok(())
}

/// An error with what is behind it: the outermost rarely says why.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

async fn write(mut output: StepOutput, bytes: Vec<u8>) -> StepOutput {
    let written = tokio::task::spawn_blocking(move || {
        output.write(&bytes);
        output
    });
    written.await.expect("writing a log does not panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_lead_elsewhere_are_found_however_they_are_written() {
        for elsewhere in ["/..", "/a/../b", "/a/.", "/./", "/%2e%2E/x", "/.%2e", "\\..\\x"] {
            assert!(has_dot_segment(&format!("https://deploy.example{elsewhere}?x")), "{elsewhere}");
        }
        for here in ["", "/", "/a.b/..c", "/...", "/%252e%252e", "/a%2F..%2Fb", "/?a=/../b", "#/../"] {
            assert!(!has_dot_segment(&format!("https://deploy.example{here}")), "{here}");
        }
    }

    #[test]
    fn neither_credentials_nor_the_query_are_shown() {
        assert_eq!(shown("https://me:secret@Host.example:8443/a/b?token=x#y"), "https://Host.example:8443/a/b");
        assert_eq!(shown("http://host?token=x/@y"), "http://host");
    }
}
