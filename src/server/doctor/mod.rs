//! Examines everything that a server needs before it starts, and says how to fix problems. It changes nothing: it tries
//! writes in unnamed temporary files.
//!
//! From top to bottom: this file → `disk`, `machine`, `address`, `keys`, `connection` (as a client) → `finding`. Each
//! file first measures, then judges the measurements in pure functions.

mod address;
mod connection;
mod disk;
mod finding;
mod keys;
mod machine;

pub use connection::examine as examine_connection;
pub use finding::{Finding, Level};

use crate::config::{Faults, Settings};
use store::{Inspection, inspect};

const SETTINGS: &str = "settings";

/// Examines the settings as a server would load them, and everything that they name.
pub fn examine(loaded: &Result<Settings, Faults>) -> Vec<Finding> {
    let settings = match loaded {
        Ok(settings) => settings,
        Err(faults) => {
            let each = faults.iter().map(|fault| Finding::fault(SETTINGS, fault.to_string(), "correct it"));
            return each.collect();
        }
    };
    let data_dir = &settings.data_dir;
    let inspected = inspect(data_dir).ok();
    let has_data = matches!(inspected, Some(Inspection::Ours { .. }));
    let in_use = matches!(inspected, Some(Inspection::Ours { holder: Some(_), .. }));
    let mut findings = vec![Finding::ok(SETTINGS, summary(settings))];
    findings.extend(disk::examine(data_dir, settings.storage.min_free_bytes));
    findings.push(keys::master_key(settings.master_key.as_ref(), data_dir, has_data));
    findings.push(machine::clock(data_dir));
    findings.push(address::examine(settings.listen, settings.tls.is_some(), in_use));
    findings.extend(keys::tls(settings.tls.as_ref(), !settings.listen.ip().is_loopback()));
    let workers = match settings.workers {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        workers => workers,
    };
    let needs = machine::Needs {
        workers,
        connections: if settings.http.max_connections_given { settings.http.max_connections } else { 0 },
        steps: settings.runner.max_running_steps,
    };
    findings.extend(machine::limits(needs));
    findings.extend([machine::isolation(settings), machine::git(&settings.git.program), machine::authorities()]);
    findings
}

fn summary(settings: &Settings) -> String {
    let organizations: Vec<_> = settings.organizations.iter().map(|organization| organization.id.as_str()).collect();
    let sample = if settings.sample { ", the sample" } else { "" };
    format!("valid; organizations: {}{sample}", organizations.join(", "))
}
