//! Threads whose panic ends the process: without them the store would wait for ever.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::log::Fatal;

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
