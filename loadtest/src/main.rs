//! The program `loadtest`; all it does is in the library, so that tests can do it, too.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(loadtest::run_with(std::env::args_os()))
}
