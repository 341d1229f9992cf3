//! A step that is an HTTP request: sent once, with the values of variables in its texts; the response's status decides,
//! and its body is logged.

use std::fmt::Write as _;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, Response, Url};
use zeroize::Zeroizing;

use super::output::StepOutput;
use super::step::{Directive, Limits, Outcome, StepContext, StepEnd, Variables, until};
use domain::HttpCall;
use outbound::{GuardedClient, NoResponse, PolicyError, error_chain, percent_encoded};

/// Enough of a response to see what went wrong.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

pub(super) async fn run(
    client: &GuardedClient,
    call: &HttpCall,
    context: &StepContext,
    limits: &Limits,
    output: StepOutput,
) -> (StepEnd, StepOutput) {
    let prepared = client.get().map_err(unprepared).and_then(|client| prepare(client, call, context));
    let (request, shown) = match prepared {
        Ok(prepared) => prepared,
        Err(reason) => return (StepEnd::of(Outcome::Failed(reason)), output),
    };
    let output = write(output, shown.into_bytes()).await;
    let response = tokio::select! {
        biased;
        () = until(limits.directive.clone(), Directive::Stop) => Err(Outcome::Stopped),
        () = tokio::time::sleep_until(limits.deadline) => Err(Outcome::TimedOut),
        response = exchange(client, request, context) => response.map_err(Outcome::Failed),
    };
    let (status, text) = match response {
        Ok(response) => response,
        Err(outcome) => return (StepEnd::of(outcome), output),
    };
    let as_expected = match &call.expect_status[..] {
        [] => (200..300).contains(&status),
        expected => expected.contains(&status),
    };
    let outcome =
        if as_expected { Outcome::Succeeded } else { Outcome::Failed(format!("was answered with status {status}")) };
    (StepEnd::of(outcome), write(output, text).await)
}

/// The request, and the line for the log.
fn prepare(client: &Client, call: &HttpCall, context: &StepContext) -> Result<(Request, String), String> {
    let fill =
        |text: &str, encode: fn(&str) -> String| substituted(text, &context.variables, encode).map_err(unprepared);
    let method = Method::from_bytes(call.method.as_bytes()).map_err(|_| unprepared("its method is not valid"))?;
    let url = fill(&call.url, percent_encoded)?;
    if has_dot_segment(&url) {
        return Err(unprepared("the path of its URL contains `.` or `..` between slashes, which would lead elsewhere"));
    }
    let parsed = Url::parse(&url).map_err(|error| unprepared(format!("its URL is not valid: {error}")))?;
    let shown = format!("{method} {}\n", shown(&url));
    // Building the request turns the URL's credentials into a header.
    let request = client.request(method, parsed).build();
    let mut request = request.map_err(|error| unprepared(error_chain(&error.without_url())))?;
    for (name, value) in &call.headers {
        let invalid =
            || unprepared(format!("its header `{name}` contains characters that are not allowed in a header"));
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let mut value = HeaderValue::from_bytes(fill(value, str::to_owned)?.as_bytes()).map_err(|_| invalid())?;
        value.set_sensitive(true);
        if key == AUTHORIZATION {
            request.headers_mut().remove(&key);
        }
        request.headers_mut().append(key, value);
    }
    if let Some(body) = &call.body {
        // A variable's value, such as a commit chosen by a caller, must not change the rest of the body.
        let body = fill(body, if is_json(&request) { in_json } else { str::to_owned })?;
        *request.body_mut() = Some(body.to_string().into());
    }
    Ok((request, shown))
}

fn is_json(request: &Request) -> bool {
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

fn unprepared(reason: impl std::fmt::Display) -> String {
    format!("could not be prepared: {reason}")
}

/// Percent-encoding does not prevent these: URL parsers resolve dot segments in any encoding, so a variable's value
/// could choose the destination of the request.
fn has_dot_segment(url: &str) -> bool {
    let (_, path) = authority_and_path(url);
    let is_dots = |segment: &str| matches!(&*segment.to_ascii_lowercase().replace("%2e", "."), "." | "..");
    path.split(['/', '\\']).any(is_dots)
}

/// The URL without credentials and query, which often contain secrets. Uses the text, not the parsed URL: parsing
/// changes the case of a secret in the host, and the mask would miss it.
fn shown(url: &str) -> String {
    let (authority, path) = authority_and_path(url);
    let scheme = url.split("://").next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

fn authority_and_path(url: &str) -> (&str, &str) {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    rest.split_at(rest.find(['/', '\\']).unwrap_or(rest.len()))
}

/// The status of the response, and the text for the log. The error is the end of a sentence.
async fn exchange(client: &GuardedClient, request: Request, context: &StepContext) -> Result<(u16, Vec<u8>), String> {
    let host = request.url().host_str().unwrap_or_default().to_owned();
    let mut response = client.execute(request, None).await.map_err(|why| match why {
        NoResponse::Public(reason) => format!("got no response: {reason}"),
        NoResponse::Hidden(reason) => {
            // The host may contain a secret in a spelling that the mask does not know.
            let reason = if host.is_empty() { reason } else { reason.replace(&host, "the host") };
            let (deployment, reason) = (context.deployment, context.mask.apply(&reason));
            tracing::warn!(%deployment, reason, "the request of a step got no response");
            format!("got no response: its host {}", PolicyError::ADVICE)
        }
    })?;
    let status = response.status();
    let mut text = format!("{:?} {status}\n", response.version()).into_bytes();
    let broken = read_body(&mut response, &mut text).await.err();
    if text.last() != Some(&b'\n') {
        text.push(b'\n');
    }
    match broken {
        None => Ok((status.as_u16(), text)),
        Some(error) => Err(format!("got a response that broke off: {}", error_chain(&error.without_url()))),
    }
}

async fn read_body(response: &mut Response, text: &mut Vec<u8>) -> reqwest::Result<()> {
    let mut left = RESPONSE_BYTES_MAX;
    while left > 0
        && let Some(piece) = response.chunk().await?
    {
        let kept = piece.len().min(left);
        text.extend_from_slice(&piece[..kept]);
        left -= kept;
    }
    Ok(())
}

async fn write(mut output: StepOutput, bytes: Vec<u8>) -> StepOutput {
    let written = tokio::task::spawn_blocking(move || {
        // Responses are too small to need a pause for the pace of output.
        output.write(&bytes);
        output
    });
    written.await.expect("writing a log does not panic")
}

/// `${NAME}` becomes the value of that variable; `$${` is a literal `${`. Each value passes through `encode`. The error
/// is one sentence that names the unknown variable.
fn substituted(
    text: &str,
    variables: &Variables,
    encode: impl Fn(&str) -> String,
) -> Result<Zeroizing<String>, String> {
    let mut result = Zeroizing::new(String::with_capacity(text.len()));
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = (&rest[..at], &rest[at + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            result.push_str(before);
            result.push_str("${");
            rest = after;
            continue;
        }
        result.push_str(before);
        let (name, after) = after.split_once('}').ok_or("a `${` has no closing `}`; write `$${` for a literal `${`")?;
        let value = variables.get(name).ok_or_else(|| format!("there is no variable `{name}`"))?;
        result.push_str(&Zeroizing::new(encode(value)));
        rest = after;
    }
    result.push_str(rest);
    Ok(result)
}

/// The inside of a JSON string, with the short escapes that almost all libraries use.
fn in_json(text: &str) -> String {
    let mut json = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            '\n' => json.push_str(r"\n"),
            '\r' => json.push_str(r"\r"),
            '\t' => json.push_str(r"\t"),
            '\u{8}' => json.push_str(r"\b"),
            '\u{c}' => json.push_str(r"\f"),
            '\0'..' ' => write!(json, "\\u{:04x}", u32::from(character)).expect("a string takes any text"),
            _ => json.push(character),
        }
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_segments_are_found_however_they_are_written() {
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

    fn filled(text: &str) -> Result<String, String> {
        let variables = [("A", "x y"), ("B_2", "ä/"), ("NESTED", "${A}")];
        let variables = variables.map(|(name, value)| (name.to_owned(), Zeroizing::new(value.to_owned()))).into();
        substituted(text, &variables, str::to_owned).map(|text| text.to_string())
    }

    #[test]
    fn names_are_replaced_by_their_values_once() {
        assert_eq!(filled("${A}-${B_2}${A}").as_deref(), Ok("x y-ä/x y"));
        assert_eq!(filled("${NESTED}").as_deref(), Ok("${A}"), "values are not substituted again");
        assert_eq!(filled("$A {A} $ $$ plain").as_deref(), Ok("$A {A} $ $$ plain"));
    }

    #[test]
    fn a_doubled_dollar_is_a_literal_one() {
        assert_eq!(filled("$${A} $$${A}").as_deref(), Ok("${A} $${A}"));
    }

    #[test]
    fn the_error_names_an_unknown_variable() {
        assert_eq!(filled("a ${MISSING}"), Err("there is no variable `MISSING`".to_owned()));
        assert!(filled("a ${A").is_err());
    }

    #[test]
    fn a_value_in_json_cannot_leave_its_quotes() {
        assert_eq!(in_json("x\",\"env\":\"prod\\\n\u{1}ä"), r#"x\",\"env\":\"prod\\\n\u0001ä"#);
    }
}
