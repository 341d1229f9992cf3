//! Server-sent events, read from the pieces in which they arrive.

/// An event is at most this long: far more than the server writes, and not enough to fill a machine's memory.
const FRAME_BYTES_MAX: usize = 1024 * 1024;

/// One event of a stream.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Frame {
    pub id: Option<String>,
    /// Empty if the stream names none.
    pub event: String,
    pub data: String,
}

#[derive(Debug, PartialEq, Eq)]
pub struct FrameTooLong;

/// Keeps the unfinished line and event between two pieces.
#[derive(Default)]
pub struct Parser {
    line: Vec<u8>,
    frame: Frame,
}

impl Parser {
    /// The events that this piece completes.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Frame>, FrameTooLong> {
        let mut frames = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() + self.frame.data.len() > FRAME_BYTES_MAX {
                return Err(FrameTooLong);
            }
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let line = String::from_utf8_lossy(&line);
                frames.extend(self.take_line(line.trim_end_matches(['\r', '\n'])));
            }
        }
        Ok(frames)
    }

    /// The event that ends with this line, if one does: an empty line after data.
    fn take_line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let mut frame = std::mem::take(&mut self.frame);
            return frame.data.pop().map(|_| frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.frame.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.frame.event),
            "data" => {
                self.frame.data.push_str(value);
                self.frame.data.push('\n');
            }
            // A comment has an empty name. `retry` is not for us: the feed has its own backoff.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const STREAM: &str = ": nothing new\nretry: 2000\nid: evt_1\nevent: session.claimed\ndata: {\"a\":\ndata: 1}\n\n\
                          : nothing for you up to evt_4\nid: evt_5\r\nevent: reset\r\ndata:{}\r\n\r\n";

    fn frame(id: &str, event: &str, data: &str) -> Frame {
        Frame { id: Some(id.to_owned()), event: event.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn events_are_the_same_in_whatever_pieces_they_arrive() {
        let whole = vec![frame("evt_1", "session.claimed", "{\"a\":\n1}"), frame("evt_5", "reset", "{}")];
        for size in 1..STREAM.len() {
            let mut parser = Parser::default();
            let pieces = STREAM.as_bytes().chunks(size);
            let frames: Vec<Frame> = pieces.flat_map(|piece| parser.push(piece).unwrap()).collect();
            assert_eq!(frames, whole, "in pieces of {size}");
        }
    }

    #[test]
    fn comments_and_empty_blocks_are_no_events() {
        let mut parser = Parser::default();
        assert_eq!(parser.push(b": hello\n\nid: evt_1\n\n\n").unwrap(), []);
    }

    #[test]
    fn an_event_without_an_end_is_refused() {
        let mut parser = Parser::default();
        let piece = [b'x'; 4096];
        let refused = (0..=FRAME_BYTES_MAX / piece.len()).any(|_| parser.push(&piece).is_err());
        assert!(refused);
    }
}
