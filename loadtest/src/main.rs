//! The program `loadtest`; everything is in the library, so that tests can use it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(loadtest::run_with(std::env::args_os()))
}
