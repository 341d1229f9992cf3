//! Output for evaluation by a shell, as in `eval "$(lockkeeper claim review-1 --shell)" || exit`. The exit code of the
//! command substitution is lost there, and evaluating an empty text succeeds: so every failure prints `false`.

use std::io::{self, IsTerminal, Write};
use std::panic;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;

use super::failure::Failure;
use super::signals::Signals;

/// Longer than a claim takes to give back its lock.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(12);

static WANTED: AtomicBool = AtomicBool::new(false);

/// The arguments of the program. Wrong arguments end the program, as in [`Parser::parse`].
pub fn parse<P: Parser>() -> P {
    let arguments = own_words(std::env::args_os().map(|word| word.to_string_lossy().into_owned()));
    if is_for_shell(&arguments) {
        WANTED.store(true, Ordering::Relaxed);
        let complain = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            failed();
            complain(info);
        }));
    }
    P::try_parse().unwrap_or_else(|error| {
        // The command or `--shell` may be misspelt.
        let may_be = arguments.iter().any(|word| is_claim(word)) && !io::stdout().is_terminal();
        if error.use_stderr() && (may_be || asks_for_shell(&arguments)) {
            WANTED.store(true, Ordering::Relaxed);
        }
        if error.use_stderr() {
            failed();
        }
        error.exit()
    })
}

/// Arguments after `--` belong to another command.
fn own_words(arguments: impl Iterator<Item = String>) -> Vec<String> {
    arguments.take_while(|word| word != "--").collect()
}

fn is_for_shell(arguments: &[String]) -> bool {
    arguments.iter().any(|word| is_claim(word)) && asks_for_shell(arguments)
}

fn asks_for_shell(arguments: &[String]) -> bool {
    arguments.iter().any(|word| word == "--shell")
}

fn is_claim(word: &str) -> bool {
    word == "claim" || word == "force-claim"
}

/// Prints `false`: nothing was claimed, or that is unknown.
pub fn failed() {
    if WANTED.swap(false, Ordering::Relaxed) {
        writeln!(io::stdout(), "false").ok();
    }
}

/// Runs a command. If its output is for a shell, a signal does not end the command silently: it fails, after giving
/// back its claim.
pub async fn run(command: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    if !WANTED.load(Ordering::Relaxed) {
        return command.await;
    }
    let mut signals = Signals::ending()?;
    let mut command = pin!(command);
    tokio::select! {
        biased;
        signal = signals.next() => {
            tokio::select! {
                _ = tokio::time::timeout(GIVEN_BACK_WITHIN, &mut command) => {}
                _ = signals.next() => {}
            }
            Err(Failure::of_signal(signal))
        }
        outcome = &mut command => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_claim_for_a_shell_is_evaluated() {
        let is = |words: &str| is_for_shell(&own_words(words.split(' ').map(str::to_owned)));
        assert!(is("lockkeeper claim review-1 --shell") && is("lockkeeper --retry 0 force-claim review-1 --shell"));
        assert!(!is("lockkeeper claim review-1") && !is("lockkeeper run review-1 -- x --shell"));
        assert!(!is("lockkeeper run review-1 -- lockkeeper claim review-2 --shell"));
    }
}
