//! Lines that mention failures without being one: warnings, retries, counts of zero, passed tests, echoes of commands
//! (`catalogue/noise.toml`).

use std::sync::LazyLock;

use regex::bytes::{RegexSet, RegexSetBuilder};
use serde::Deserialize;

use crate::catalogue::{self, AnyOf, Pattern};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    recoveries: Vec<String>,
    gives_up: AnyOf,
    cluster: AnyOf,
    routine: AnyOf,
    afterwards: AnyOf,
    rule: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    credibility: f64,
    #[serde(default)]
    routine: bool,
    any: AnyOf,
}

struct Noise {
    recoveries: Vec<String>,
    gives_up: Pattern,
    afterwards: Pattern,
    routine: RegexSet,
    /// One pattern per share, then those of lines to be taken literally.
    credibility: RegexSet,
    shares: Vec<f64>,
}

static NOISE: LazyLock<Noise> = LazyLock::new(|| {
    let Table { recoveries, gives_up, cluster, routine, afterwards, rule: rules } = catalogue::NOISE.read();
    let set = |patterns: Vec<String>| {
        let set = RegexSetBuilder::new(patterns).unicode(false).case_insensitive(true).build();
        set.expect("a test compiles the patterns")
    };
    let of_routine = rules.iter().filter(|rule| rule.routine).map(|rule| rule.any.joined());
    let in_earnest = [gives_up.joined(), cluster.joined()];
    Noise {
        recoveries,
        gives_up: gives_up.pattern(),
        afterwards: afterwards.pattern(),
        routine: set([routine.joined()].into_iter().chain(of_routine).collect()),
        credibility: set(rules.iter().map(|rule| rule.any.joined()).chain(in_earnest).collect()),
        shares: rules.iter().map(|rule| rule.credibility).collect(),
    }
});

/// Texts that report a recovery.
pub(super) fn recoveries() -> &'static [String] {
    &NOISE.recoveries
}

/// From 0 (meaningless) to 1 (to be taken literally).
pub(super) fn credibility(line: &str) -> f64 {
    let found = NOISE.credibility.matches(line.as_bytes());
    if found.iter().any(|index| index >= NOISE.shares.len()) {
        return 1.0;
    }
    found.iter().map(|index| NOISE.shares[index]).product()
}

/// Whether the line says that there will be no further attempt.
pub(super) fn gives_up(line: &str) -> bool {
    NOISE.gives_up.is_match(line)
}

/// Whether a command is usually run after a failure.
pub(super) fn comes_after_a_failure(command: &str) -> bool {
    NOISE.afterwards.is_match(command)
}

/// Whether the line is written by a CI or a wrapper around any step, or is a complaint without effect.
pub(super) fn is_routine(line: &str) -> bool {
    NOISE.routine.is_match(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_failure_have_little_credibility() {
        for line in [
            "+ grep -q 'connection refused' out.log",
            "WARN db: connection refused",
            "##[warning]The process '/usr/bin/git' failed with exit code 128",
            "12:00 [INFO] last error: connection refused",
            "redis: connection refused, retrying in 2s",
            "finished with 0 errors",
            "✓ answers 401 without a token",
            "test connection_refused_is_reported ... ok",
            "rm: cannot remove 'x': No such file or directory (ignored)",
            "mirror 1: timed out, trying the next one",
            "HEAD is now at 9be17d0 fix: no crash when the disk is full",
        ] {
            assert!(credibility(line) <= 0.45, "{line}: {}", credibility(line));
        }
    }

    #[test]
    fn failures_are_credible() {
        for line in [
            "psql: error: connection refused",
            "connection refused after 5 attempts, giving up",
            "  Warning  Failed   4s   kubelet  Error: ImagePullBackOff",
            "ERROR in ./src/retryPolicy.ts",
        ] {
            assert!(credibility(line) > 0.9, "{line}: {}", credibility(line));
        }
    }
}
