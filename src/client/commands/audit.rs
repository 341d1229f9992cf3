//! `lockkeeper audit verify` against a running server, and the words for the result of an audit, which are the same for
//! a stopped server's data directory.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::api::{Api, Connected};
use crate::failure::Failure;
use crate::output::text::{harmless, shown_of};
use crate::output::{items_of, note};

/// The chain is broken.
pub const EXIT_BROKEN: u8 = 1;
/// The verification was impossible, or incomplete.
pub const EXIT_CANNOT: u8 = 2;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Find events that were changed, removed, inserted or moved, as an admin
    #[command(
        after_help = "Store the printed head in a safe place now and then, and pass it with --expect later. The `eventId` \
                            and `hash` of any event work too, as EVENT_ID:HASH.\n\n\
                            Exit codes: 0 intact, 1 broken, 2 verification not possible, or not in full.\n\n\
                            Examples:\n  lockkeeper audit verify\n  lockkeeper audit verify --expect 1233:9f86d081…"
    )]
    Verify(Connected<Verify>),
}

#[derive(clap::Args)]
pub struct Verify {
    /// A head printed by an earlier run, which must still be part of the chain; may be repeated
    #[arg(long, value_name = "NUMBER:HASH")]
    expect: Vec<String>,
}

pub async fn run(command: Command) -> Result<ExitCode, Failure> {
    let Command::Verify(Connected { args, options }) = command;
    let verified = async { verify(&Api::connect(&options).await?, &args.expect).await };
    let report = match verified.await {
        Ok(report) => report,
        Err(failure) => {
            note(&format!("lockkeeper: {failure}"));
            return Ok(EXIT_CANNOT.into());
        }
    };
    let out = options.out();
    if out.json {
        out.json(&in_json(std::slice::from_ref(&report)))?;
    } else {
        out.lines(&lines(&report, None))?;
    }
    Ok(code(&[report]).into())
}

/// The reports of some organizations, for scripts.
pub fn in_json(reports: &[Value]) -> Value {
    json!({ "intact": are_intact(reports), "organizations": reports })
}

fn are_intact(reports: &[Value]) -> bool {
    reports.iter().all(|report| report["intact"] == true)
}

/// Asks the server to verify the events of the organization. Its answer is the report.
pub async fn verify(api: &Api, expected: &[String]) -> Result<Value, Failure> {
    Ok(api.get(&format!("/audit{}", query(expected)?)).await?.data)
}

/// `?expect=1233:9f86…`, for each head.
pub fn query(expected: &[String]) -> Result<String, Failure> {
    let is_known = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    if let Some(wrong) = expected.iter().find(|text| text.is_empty() || !text.chars().all(is_known)) {
        let must = "must be NUMBER:HASH, as printed by an earlier run, or EVENT_ID:HASH of an event";
        return Err(Failure::Usage(format!("--expect {:?} {must}", harmless(wrong))));
    }
    let given: Vec<String> = expected.iter().map(|text| format!("expect={text}")).collect();
    Ok(if given.is_empty() { String::new() } else { format!("?{}", given.join("&")) })
}

/// The exit code for some organizations' reports.
pub fn code(reports: &[Value]) -> u8 {
    let unverified = |report: &Value| {
        let mut expected = items_of(&report["expected"]).iter();
        expected.any(|expected| expected["found"] == "no_longer_kept") || report["seals"]["status"] == "not_checked"
    };
    if !are_intact(reports) {
        EXIT_BROKEN
    } else if reports.iter().any(unverified) {
        EXIT_CANNOT
    } else {
        0
    }
}

/// The report of one organization. `unchecked` says why the seals could not be checked.
pub fn lines(report: &Value, unchecked: Option<&str>) -> Vec<String> {
    let name = shown_of(report, "organization");
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let (events, first) = (number(&report["events"]), number(&report["first"]));
    let noted = |event: &Value| format!("{}:{}", number(&event["number"]), shown_of(event, "hash"));
    let (fault, head) = (&report["fault"], &report["head"]);
    let mut lines = vec![match (fault.is_null(), head.is_null()) {
        (false, _) => {
            format!("{name}: broken at event {}: {}", number(&fault["number"]), shown_of(fault, "what"))
        }
        (true, false) => {
            let last = number(&head["number"]);
            format!("{name}: {events} events, {first} … {last}, chain intact, head {}", noted(head))
        }
        (true, true) => format!("{name}: 0 events, chain intact"),
    }];
    let archived = number(&report["archived"]);
    if archived > 0 {
        lines.push(format!("{name}: {archived} security events from before event {first}"));
    }
    lines.extend(seals(&report["seals"], fault.is_null(), unchecked).map(|words| format!("{name}: {words}")));
    for expected in items_of(&report["expected"]) {
        let event = noted(expected);
        lines.push(match expected["found"].as_str() {
            Some("there") => format!("{name}: {event} is part of the chain"),
            Some("no_longer_kept") => format!("{name}: {event} is no longer kept, so this cannot be verified"),
            Some(_) | None => format!("{name}: broken: {event} is not part of the chain: it has been rewritten"),
        });
    }
    lines
}

fn seals(seals: &Value, is_whole: bool, unchecked: Option<&str>) -> Option<String> {
    match (seals["status"].as_str(), is_whole) {
        (Some("checked"), false) => None,
        (Some("checked"), true) => {
            let (from, next) = (seals["from"].as_u64().unwrap_or_default(), seals["next"].as_u64().unwrap_or_default());
            let last = next.saturating_sub(1);
            Some(format!("seals intact, made from event {from} on, the last after event {last}"))
        }
        (Some("none"), _) => {
            Some("no seals: a server makes them from its first second on, so none of this version has run".to_owned())
        }
        (Some(_) | None, _) => {
            let why = unchecked.unwrap_or("their key is missing");
            Some(format!("seals not checked, so the chain may have been rewritten as a whole: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(change: impl FnOnce(&mut Value)) -> Value {
        let mut report = json!({
            "organization": "acme", "events": 4, "first": 0, "intact": true, "head": { "number": 3, "hash": "ab" },
            "archived": 0, "seals": { "status": "checked", "from": 0, "next": 4 }, "fault": null, "expected": [],
        });
        change(&mut report);
        report
    }

    #[test]
    fn every_outcome_has_its_exit_code_and_its_words() {
        let well = report(|_| {});
        assert_eq!(lines(&well, None)[0], "acme: 4 events, 0 … 3, chain intact, head 3:ab");
        assert_eq!(code(&[well]), 0);
        let broken = report(|report| {
            report["intact"] = json!(false);
            report["fault"] = json!({ "number": 2, "what": "event 2 has been changed" });
        });
        assert_eq!(lines(&broken, None), ["acme: broken at event 2: event 2 has been changed"]);
        assert_eq!(code(&[broken]), EXIT_BROKEN);
        let unsealed = report(|report| report["seals"] = json!({ "status": "not_checked" }));
        assert!(lines(&unsealed, Some("no key"))[1].ends_with("as a whole: no key"));
        assert_eq!(code(&[unsealed]), EXIT_CANNOT);
        let too_old =
            report(|report| report["expected"] = json!([{ "number": 1, "hash": "cd", "found": "no_longer_kept" }]));
        assert!(lines(&too_old, None)[2].contains("1:cd is no longer kept"));
        assert_eq!(code(&[too_old]), EXIT_CANNOT);
    }

    #[test]
    fn what_is_expected_becomes_a_query_and_nothing_else() {
        let given = |texts: &[&str]| query(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        assert_eq!(given(&["1:ab", "evt_00:cd"]), Ok("?expect=1:ab&expect=evt_00:cd".to_owned()));
        assert_eq!(given(&[]), Ok(String::new()));
        assert_eq!(given(&["1:ab&x=y"]).map_err(|failure| failure.code()), Err(2));
    }
}
