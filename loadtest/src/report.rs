//! Owns how a run is told: the table on standard output and the same as JSON.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use serde_json::{Map, Value, json};

use crate::cycle::Outcome;
use crate::options::Plan;
use crate::summary::{Figure, Measurement, Round, figures};

pub fn write(plan: &Plan, outcome: &Outcome, json: Option<File>) -> io::Result<()> {
    let figures = figures(&outcome.rounds);
    if let Some(file) = json {
        let mut file = BufWriter::new(file);
        serde_json::to_writer_pretty(&mut file, &as_json(plan, outcome, &figures))?;
        writeln!(file)?;
        file.flush()?;
    }
    let mut out = io::stdout().lock();
    write_table(&mut out, plan, outcome, &figures)?;
    out.flush()
}

fn write_table(out: &mut impl Write, plan: &Plan, outcome: &Outcome, figures: &[Figure]) -> io::Result<()> {
    let findings = &outcome.findings;
    let end = if outcome.interrupted { ", ended early" } else { "" };
    writeln!(
        out,
        "{} connections, {} environments, {} s for each workload, {} of {} rounds{end}\n",
        plan.connections,
        plan.environments,
        plan.round_length.as_secs(),
        outcome.rounds.len(),
        plan.rounds
    )?;
    writeln!(out, "{:<26}{:>12}   min – max", "", "median")?;
    for Figure { label, decimals, spread, .. } in figures {
        if let Some(spread) = spread {
            let [median, min, max] = [spread.median, spread.min, spread.max].map(|value| grouped(value, *decimals));
            writeln!(out, "{label:<26}{median:>12}   {min} – {max}")?;
        }
    }
    writeln!(out, "{:<26}{:>12}", "errors", findings.error_count())?;
    writeln!(out, "{:<26}{:>12}", "fencing violations", findings.violation_count)?;
    if findings.reconnects > 0 {
        writeln!(out, "{:<26}{:>12}", "reconnects", findings.reconnects)?;
    }
    if findings.left_out > 0 {
        writeln!(out, "{:<26}{:>12}   their cycle failed", "environments left out", findings.left_out)?;
    }
    writeln!(out, "\nstatuses")?;
    for ((operation, status), count) in &findings.statuses {
        let mark = if operation.expects(*status) { "" } else { "   unexpected" };
        writeln!(out, "  {:<8} {status} {count:>12}{mark}", operation.name())?;
    }
    if !findings.errors.is_empty() {
        writeln!(out, "\nerrors")?;
        for (what, count) in &findings.errors {
            writeln!(out, "  {count:>8} × {what}")?;
        }
    }
    if !findings.violations.is_empty() {
        writeln!(out, "\nfencing violations (the first {})", findings.violations.len())?;
        for violation in &findings.violations {
            writeln!(out, "  {violation}")?;
        }
    }
    Ok(())
}

fn as_json(plan: &Plan, outcome: &Outcome, figures: &[Figure]) -> Value {
    let findings = &outcome.findings;
    let summary: Map<String, Value> = figures
        .iter()
        .map(|figure| {
            let spread =
                figure.spread.map(|spread| json!({"median": spread.median, "min": spread.min, "max": spread.max}));
            (figure.key.to_owned(), json!(spread))
        })
        .collect();
    let mut statuses: Map<String, Value> = Map::new();
    for ((operation, status), count) in &findings.statuses {
        statuses.entry(operation.name()).or_insert_with(|| json!({}))[status.to_string()] = json!(count);
    }
    json!({
        "scenario": "cycle",
        "settings": {
            "target": plan.authority,
            "organization": plan.organization,
            "pipeline": plan.pipeline,
            "prefix": plan.prefix,
            "connections": plan.connections,
            "environments": plan.environments,
            "seconds": plan.round_length.as_secs(),
            "rounds": plan.rounds,
            "threads": plan.threads,
            "otherClients": plan.other_clients,
        },
        "clean": outcome.is_clean(),
        "interrupted": outcome.interrupted,
        "summary": summary,
        "rounds": outcome.rounds.iter().map(round_as_json).collect::<Vec<_>>(),
        "statuses": statuses,
        "errorCount": findings.error_count(),
        "errors": findings.errors,
        "fencingViolationCount": findings.violation_count,
        "fencingViolations": findings.violations,
        "reconnects": findings.reconnects,
        "environmentsLeftOut": findings.left_out,
    })
}

fn round_as_json(round: &Round) -> Value {
    json!({
        "healthz": round.health.as_ref().map(measurement_as_json),
        "cycle": round.cycle.as_ref().map(measurement_as_json),
        "read": round.read.as_ref().map(measurement_as_json),
    })
}

fn measurement_as_json(measurement: &Measurement) -> Value {
    let latencies: Map<String, Value> = measurement
        .latencies
        .iter()
        .map(|(operation, at)| {
            (operation.name().to_owned(), json!({"p50": at.p50, "p90": at.p90, "p99": at.p99, "max": at.max}))
        })
        .collect();
    json!({
        "seconds": measurement.seconds,
        "requests": measurement.requests(),
        "requestsPerSecond": measurement.requests_per_second(),
        "latencyMicroseconds": latencies,
        "serverCpuMicroseconds": measurement.server_cpu_microseconds,
    })
}

/// Thousands apart, as in 93,211.5.
fn grouped(value: f64, decimals: usize) -> String {
    let plain = format!("{value:.decimals$}");
    let whole = plain.find('.').unwrap_or(plain.len());
    let mut text = String::with_capacity(plain.len() + 4);
    for (index, character) in plain.chars().enumerate() {
        if index > 0 && index < whole && (whole - index) % 3 == 0 {
            text.push(',');
        }
        text.push(character);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_grouped_by_thousands() {
        for (value, decimals, text) in [
            (0.0, 0, "0"),
            (999.6, 0, "1,000"),
            (1_234_567.89, 1, "1,234,567.9"),
            (0.7512, 3, "0.751"),
            (100.0, 1, "100.0"),
        ] {
            assert_eq!(grouped(value, decimals), text);
        }
    }
}
