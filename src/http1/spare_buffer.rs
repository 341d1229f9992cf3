//! One buffer per worker thread, for the JSON of its answers. An answer is rendered and copied to its connection
//! without yielding, so the next answer finds the buffer free again.

use std::cell::Cell;

/// Room for a typical response, so that the buffer does not grow.
pub const USUAL_BYTES: usize = 768;
/// Larger buffers are not kept.
const KEPT_BYTES: usize = 16 * 1024;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An empty buffer: the thread's own, or a new one if that is in use.
pub fn take() -> Vec<u8> {
    let mut buffer = SPARE.take();
    buffer.clear();
    buffer.reserve(USUAL_BYTES);
    buffer
}

/// Returns the buffer for the next user.
pub fn give_back(buffer: Vec<u8>) {
    if buffer.capacity() <= KEPT_BYTES {
        SPARE.set(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_without_what_was_in_it_unless_it_is_large() {
        let mut first = take();
        first.extend_from_slice(b"secret");
        let place = first.as_ptr();
        let second = take();
        assert_ne!(second.as_ptr(), place, "the first is in use");
        give_back(first);
        let again = take();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        give_back(Vec::with_capacity(KEPT_BYTES + 1));
        assert!(take().capacity() < KEPT_BYTES);
    }
}
