//! Limits the output of a step: the beginning is kept as it arrives, and the end, which is only known at the end.

/// The share of the limit for the beginning of the output; the rest is for its end.
const HEAD_QUARTERS: u64 = 3;

pub(super) struct OutputCap {
    head_left: u64,
    tail_max: usize,
    /// Holds up to twice `tail_max`, of which only the last `tail_max` count, so that bytes are rarely moved.
    tail: Vec<u8>,
    left_out: u64,
}

/// The output that remains to be written when a step has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// The number of bytes missing between the written output and this.
    pub left_out: u64,
    pub bytes: Vec<u8>,
}

impl OutputCap {
    pub fn new(bytes_max: u64) -> Self {
        let head = bytes_max / 4 * HEAD_QUARTERS;
        let tail_max = usize::try_from(bytes_max - head).unwrap_or(usize::MAX / 2);
        Self { head_left: head, tail_max, tail: Vec::new(), left_out: 0 }
    }

    /// The part to be written now; the rest is kept here.
    pub fn pass<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let head = usize::try_from(self.head_left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (head, rest) = bytes.split_at(head);
        self.head_left -= head.len() as u64;
        let skipped = rest.len().saturating_sub(self.tail_max);
        if skipped > 0 {
            self.left_out += (self.tail.len() + skipped) as u64;
            self.tail.clear();
        }
        self.tail.extend_from_slice(&rest[skipped..]);
        if self.tail.len() > self.tail_max.saturating_mul(2) {
            self.trim();
        }
        head
    }

    pub fn finish(mut self) -> Tail {
        self.trim();
        if self.left_out > 0
            && let Some(end) = self.tail.iter().position(|byte| *byte == b'\n')
        {
            self.left_out += end as u64 + 1;
            self.tail.drain(..=end);
        }
        Tail { left_out: self.left_out, bytes: self.tail }
    }

    fn trim(&mut self) {
        let surplus = self.tail.len().saturating_sub(self.tail_max);
        self.left_out += surplus as u64;
        self.tail.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_output_is_kept_whole() {
        let mut cap = OutputCap::new(16);
        let mut written = Vec::new();
        for piece in [&b"0123456789"[..], b"abcdef"] {
            written.extend_from_slice(cap.pass(piece));
        }
        assert_eq!(written, b"0123456789ab");
        assert_eq!(cap.finish(), Tail { left_out: 0, bytes: b"cdef".to_vec() });
    }

    #[test]
    fn the_beginning_and_the_last_whole_lines_of_long_output_are_kept() {
        for piece_bytes in [1, 2, 3, 7, 64] {
            let mut cap = OutputCap::new(32);
            let text = b"the beginning of it all. and what is in the middle\nand\nend\n";
            let mut written = Vec::new();
            for piece in text.chunks(piece_bytes) {
                written.extend_from_slice(cap.pass(piece));
            }
            assert_eq!(written, b"the beginning of it all.");
            let tail = cap.finish();
            assert_eq!(tail.bytes, b"end\n");
            assert_eq!(written.len() as u64 + tail.left_out + tail.bytes.len() as u64, text.len() as u64);
        }
    }
}
