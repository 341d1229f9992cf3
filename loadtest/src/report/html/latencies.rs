//! Owns the page's table of latencies: a row for each operation, and for each run of it.

use maud::{Markup, html as markup};

use super::tables::{in_order, of_phase, phase_names, run_name};
use crate::report::model::{Operation, Run};
use crate::report::number::{change, count, latency};

pub fn section(runs: &[Run]) -> Markup {
    let phases: Vec<(&str, Vec<&str>)> = phase_names(runs)
        .into_iter()
        .map(|phase| (phase, in_order(measured(runs, phase).map(|operation| operation.name.as_str()))))
        .filter(|(_, operations)| !operations.is_empty())
        .collect();
    markup! {
        @if !phases.is_empty() {
            section {
                h2 { "Latencies" }
                div.scroll { table.latencies {
                    thead { tr {
                        th {} @if runs.len() > 1 { th {} }
                        @for name in ["count", "p50", "p90", "p99", "p99.9", "max"] { th.number { (name) } }
                    } }
                    @for (phase, operations) in phases {
                        tbody {
                            tr.group { th colspan="8" { (phase) } }
                            @for name in operations { (rows(runs, phase, name)) }
                        }
                    }
                } }
            }
        }
    }
}

fn measured<'a>(runs: &'a [Run], phase: &str) -> impl Iterator<Item = &'a Operation> {
    of_phase(runs, phase).flat_map(|phase| &phase.operations).filter(|operation| operation.count > 0)
}

fn rows(runs: &[Run], phase: &str, name: &str) -> Markup {
    let found: Vec<(usize, &Operation)> = runs
        .iter()
        .enumerate()
        .filter_map(|(index, run)| {
            let phase = run.phases.iter().find(|found| found.name == phase)?;
            let mut operations = phase.operations.iter();
            Some((index, operations.find(|operation| operation.name == name && operation.count > 0)?))
        })
        .collect();
    let first = found.first().filter(|(index, _)| *index == 0).map(|(_, operation)| quantiles(operation));
    markup! {
        @for (place, (index, operation)) in found.iter().enumerate() {
            tr {
                @if place == 0 { th rowspan=(found.len()) { (name) } }
                @if runs.len() > 1 { td { (run_name(*index)) } }
                td.number { (count(operation.count)) }
                @for (at, value) in quantiles(operation).into_iter().enumerate() {
                    td.number {
                        (latency(value))
                        @if let Some(first) = first.filter(|_| *index > 0) {
                            span.change { (change(first[at] as f64, value as f64).unwrap_or_default()) }
                        }
                    }
                }
            }
        }
    }
}

fn quantiles(operation: &Operation) -> [u64; 5] {
    let at = operation.latency;
    [at.p50_us, at.p90_us, at.p99_us, at.p999_us, at.max_us]
}
