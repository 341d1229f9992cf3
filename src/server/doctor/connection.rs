//! Examines a server as its client: the profile, the connection, its clock and the token. Only if a setting names a
//! server.

use std::time::SystemTime;

use super::finding::Finding;
use client::api::{Api, CALLER};
use client::connection::options::{Options, variable};
use client::connection::profile::{self, Profiles};
use client::failure::Failure;
use client::output::text::harmless;
use client::output::text_of;

const PROFILE: &str = "profile";
const SERVER: &str = "server";
const TOKEN: &str = "token";
const CLOCK: &str = "clock of the server";
/// `Date` has whole seconds, and the response takes a moment.
const CLOCKS_APART_SECONDS: i64 = 5;
/// Exit codes for an unreachable server and a refused token.
const UNREACHABLE: u8 = 69;
const DENIED: u8 = 77;

/// Variables that name a server or a token.
const VARIABLES: [&str; 5] =
    ["LOCKKEEPER_URL", "LOCKKEEPER_TOKEN", "LOCKKEEPER_TOKEN_FILE", "LOCKKEEPER_PROFILE", "LOCKKEEPER_CA_FILE"];

pub fn examine(options: &Options) -> Vec<Finding> {
    let path = profile::path().filter(|path| path.exists());
    let given = options.url.is_some() || options.profile.is_some() || options.token_file.is_some();
    if !given && path.is_none() && VARIABLES.iter().all(|name| variable(name).is_none()) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if let Some(path) = path {
        findings.push(match Profiles::load(&path) {
            Ok(_) => Finding::ok(PROFILE, format!("{}, for its owner alone", path.display())),
            Err(failure) => Finding::fault(PROFILE, failure.to_string(), "or log in again"),
        });
    }
    // A single attempt: the doctor reports the state at this moment.
    let options = Options { retry: 0, ..options.clone() };
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            findings.extend(runtime.block_on(ask(&options)).unwrap_or_else(|failure| vec![failed(&failure)]))
        }
        Err(error) => findings.push(Finding::fault(SERVER, format!("cannot be asked: {error}"), "try again")),
    }
    findings
}

async fn ask(options: &Options) -> Result<Vec<Finding>, Failure> {
    let api = Api::connect(options).await?;
    let caller = api.get(CALLER).await?;
    let data = &caller.data;
    let (user, role) = (text_of(&data["user"], "name"), text_of(data, "role"));
    let who = harmless(&format!("{user}, {role} in {}", text_of(&data["organization"], "id")));
    let mut findings = vec![Finding::ok(SERVER, format!("{} answers", api.url())), Finding::ok(TOKEN, who)];
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let server = caller.date.as_deref().and_then(seconds);
    findings.extend(server.map(|server| clocks(i64::try_from(now).unwrap_or(i64::MAX), server)));
    Ok(findings)
}

fn failed(failure: &Failure) -> Finding {
    let words = failure.to_string();
    match failure.code() {
        UNREACHABLE => Finding::fault(SERVER, words, "start it, or correct --url"),
        DENIED => Finding::fault(TOKEN, words, "log in again with `lockkeeper login`"),
        _ => Finding::fault(SERVER, words, "correct the options, the variables or the profile"),
    }
}

fn clocks(own: i64, server: i64) -> Finding {
    let apart = own.saturating_sub(server);
    if apart.abs() <= CLOCKS_APART_SECONDS {
        return Finding::ok(CLOCK, "as ours");
    }
    let side = if apart > 0 { "behind" } else { "ahead of" };
    let advice = "let NTP keep both; times in answers are the server's";
    Finding::warning(CLOCK, format!("{} seconds {side} ours", apart.abs()), advice)
}

/// Parses a `Date` header.
fn seconds(date: &str) -> Option<i64> {
    let parsed = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    Some(parsed.as_second())
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn clocks_that_are_apart_are_a_warning_that_says_which_way() {
        assert_eq!(clocks(1_000, 998).level, Level::Ok);
        assert!(clocks(1_000, 900).words.contains("100 seconds behind ours"));
        assert!(clocks(1_000, 1_100).words.contains("100 seconds ahead of ours"));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(seconds("today"), None);
    }

    #[test]
    fn a_failure_is_the_servers_or_the_tokens() {
        assert_eq!(failed(&Failure::Unreachable("no answer".to_owned())).subject, SERVER);
        assert_eq!(failed(&Failure::Denied("no".to_owned())).subject, TOKEN);
    }
}
