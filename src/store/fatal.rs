//! Ends the process when the disk fails, or when a thread panics that the store depends on.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Ends the process when the disk fails: after a failed `fdatasync` the kernel has dropped the page, and a second
/// attempt would falsely succeed. Called with one sentence for the operator.
pub type Fatal = Arc<dyn Fn(&str) + Send + Sync>;

/// `EX_IOERR` of sysexits.h.
const EXIT_IO_ERROR: i32 = 74;

pub fn exit_on_fatal() -> Fatal {
    exit_with(EXIT_IO_ERROR)
}

/// Logs the sentence, prints it on stderr, and exits with this code.
pub fn exit_with(code: i32) -> Fatal {
    Arc::new(move |sentence| {
        tracing::error!("{sentence}");
        // Unlike `writeln`, `eprintln` panics if stderr is on a full disk too.
        writeln!(std::io::stderr(), "lockkeeper: {sentence}").ok();
        std::process::exit(code)
    })
}

/// Wraps the body of a thread so that its panic is reported as fatal.
pub fn contained(thread: &str, fatal: &Fatal, run: impl FnOnce() + Send + 'static) -> impl FnOnce() + Send + 'static {
    let (thread, fatal) = (thread.to_owned(), fatal.clone());
    move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            fatal(&format!(
                "the thread {thread} failed: {}; everything acknowledged is safe: start the server again",
                panic_text(&*panic)
            ));
        }
    }
}

/// The message of a panic, in one line.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it failed without a reason".to_owned()).lines().collect::<Vec<_>>().join(" ")
}
