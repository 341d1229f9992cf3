//! Notices that the reader of stdout has gone, for commands that may have nothing to write for a long time.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::stdio::stdout;
use tokio::sync::oneshot;

/// Waits until nobody can read what is written, as behind `| head -1`; for ever if stdout is a file.
pub async fn reader_gone() {
    let (tell, told) = oneshot::channel();
    // A thread that waits ends with the program, which does not wait for it.
    let waiting = std::thread::Builder::new().name("stdout".to_owned()).spawn(move || {
        if is_gone_at_last() {
            tell.send(()).ok();
        }
    });
    if waiting.is_err() || told.await.is_err() {
        std::future::pending().await
    }
}

fn is_gone_at_last() -> bool {
    loop {
        // Errors and hang-ups are reported without being asked for.
        let mut waiting = [PollFd::from_borrowed_fd(stdout(), PollFlags::empty())];
        match poll(&mut waiting, None) {
            Ok(_) => return waiting[0].revents().intersects(PollFlags::ERR | PollFlags::HUP),
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
