//! The end of the process when the disk fails.

use std::io::Write;
use std::sync::Arc;

/// Ends the process when the disk fails: after a failed `fdatasync` the kernel has dropped the page, so a second attempt
/// would report a false success. Called with one sentence for the operator.
pub type Fatal = Arc<dyn Fn(&str) + Send + Sync>;

/// `EX_IOERR` of sysexits.h.
const EXIT_IO_ERROR: i32 = 74;

pub fn exit_on_fatal() -> Fatal {
    exit_with(EXIT_IO_ERROR)
}

/// Logs the sentence, prints it on stderr, and ends the process with this code.
pub fn exit_with(code: i32) -> Fatal {
    Arc::new(move |sentence| {
        tracing::error!("{sentence}");
        // Not `eprintln`, which panics where stderr is a full disk too.
        writeln!(std::io::stderr(), "lockkeeper: {sentence}").ok();
        std::process::exit(code)
    })
}
