//! The program. Everything else is in the library.

use std::process::ExitCode;

// Allocation is a tenth of the cost of a request; this allocator is faster than the system's.
#[cfg(feature = "server")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    lockkeeper::run()
}
