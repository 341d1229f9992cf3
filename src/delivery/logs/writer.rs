//! Writes a log. Neither a failing disk nor a lack of space stops the step: output that cannot be written is counted,
//! and a remark says so as soon as writing works again. If a step's output exceeds its limit, the beginning and the end
//! are kept.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use tracing::warn;

use super::file::{self, Frame, HEADER, LINE_BYTES_MAX, Section};
use super::reader::PartReader;
use super::registry::Registration;
use super::space::OwnSpace;
use domain::Timestamp;

const ONLY_OWNER: u32 = 0o600;
/// Output is synced in steps of this size. Otherwise the store, which syncs the same disk with every commit, would have
/// to wait for megabytes of output.
const SYNC_STEP: u64 = 64 * 1024;
/// The prefix of the server's own lines.
const REMARK_PREFIX: &str = "lockkeeper: ";
const NOT_WRITTEN: &str = "output is left out from here: the server cannot write it to its disk";
const NO_ROOM: &str = "output is left out from here: your organization has used its share of the space for logs, and the \
                       oldest of its logs are being removed; let steps write less";
/// The largest number of bytes after the first one of a UTF-8 character.
const CONTINUATION_BYTES_MAX: usize = 3;

/// Appends to the log of one deployment, exclusively. Blocking.
pub struct LogWriter {
    registration: Registration,
    space: OwnSpace,
    /// `None` if it could not be opened; then all output is dropped.
    file: Option<File>,
    length: u64,
    unsynced: u64,
    /// `None` once it is in the file.
    due_section: Option<Section>,
    /// Whether the text so far ends in the middle of a line.
    mid_line: bool,
    /// Whether the file ends in the middle of a line: differs from `mid_line` after lost output.
    mid_line_in_file: bool,
    frames: Vec<u8>,
    lost_bytes: u64,
    /// Whether the file ends with a remark that output is left out.
    is_left_out: bool,
    warned: bool,
}

impl LogWriter {
    pub(super) fn open(path: &Path, registration: Registration, space: OwnSpace) -> Self {
        let mut writer = Self {
            registration,
            space,
            file: None,
            length: 0,
            unsynced: 0,
            due_section: None,
            mid_line: false,
            mid_line_in_file: false,
            frames: Vec::new(),
            lost_bytes: 0,
            is_left_out: false,
            warned: false,
        };
        match writer.open_file(path) {
            Ok(file) => writer.file = Some(file),
            Err(error) => writer.warn_once(&error),
        }
        writer
    }

    /// Starts the output of a step, of which at most `bytes_max` is kept.
    pub fn step(mut self, section: Section, bytes_max: u64) -> StepLog {
        self.due_section = Some(section);
        StepLog { writer: self, cap: OutputCap::new(bytes_max), partial: Vec::new() }
    }

    /// Writes a line of the server itself.
    pub fn remark(&mut self, at: Timestamp, text: &str) {
        self.put_remark(at, text);
        self.append(at);
    }

    /// After this, everything written so far survives a power cut. Call it when a stage has ended.
    pub fn sync(&mut self) {
        self.sync_file();
        if let Err(error) = self.registration.sync_dir() {
            self.warn_once(&error);
        }
        self.registration.stage_ended();
    }

    fn sync_file(&mut self) {
        self.unsynced = 0;
        if let Some(Err(error)) = self.file.as_ref().map(|file| self.registration.sync(file)) {
            self.warn_once(&error);
        }
    }

    fn open_file(&mut self, path: &Path) -> io::Result<File> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(ONLY_OWNER).open(path)?;
        let mut reader = PartReader::open(path)?;
        while let Some(frame) = reader.next_frame()? {
            if let Frame::Line { ends_line, .. } = frame {
                self.mid_line = !ends_line;
            }
        }
        self.mid_line_in_file = self.mid_line;
        // Bytes after the last complete frame were being written when the server ended.
        self.length = reader.offset();
        file.set_len(self.length)?;
        Ok(file)
    }

    fn put_remark(&mut self, at: Timestamp, text: &str) {
        if self.mid_line {
            file::put_line(at, b"", true, &mut self.frames);
        }
        let mut line = format!("{REMARK_PREFIX}{}", text.replace('\n', " "));
        line.truncate(line.floor_char_boundary(LINE_BYTES_MAX));
        self.put_line(at, line.as_bytes(), true);
    }

    fn put_line(&mut self, at: Timestamp, bytes: &[u8], ends_line: bool) {
        file::put_line(at, bytes, ends_line, &mut self.frames);
        self.mid_line = !ends_line;
    }

    /// Writes the collected frames to the file, preceded by the header, section and remark that are due.
    fn append(&mut self, at: Timestamp) {
        if self.frames.is_empty() {
            return;
        }
        let output_bytes = self.frames.len() as u64;
        if !self.space.has_room() {
            self.frames.clear();
            self.lost_bytes += output_bytes;
            if !self.is_left_out {
                self.space.refused();
            }
            return self.remark_left_out(at, NO_ROOM);
        }
        let mut bytes = self.due_header();
        if self.lost_bytes > 0 {
            let text = format!("about {} bytes could not be written here", self.lost_bytes);
            self.put_own_line(at, &text, &mut bytes);
        }
        bytes.append(&mut self.frames);
        if self.write(&bytes) {
            self.lost_bytes = 0;
            self.is_left_out = false;
            self.mid_line_in_file = self.mid_line;
        } else {
            self.lost_bytes += output_bytes;
            self.remark_left_out(at, NOT_WRITTEN);
        }
    }

    /// Written once, until there is space again. The remark is written even without space, so that a reader knows what
    /// is missing and why. On a full disk, these few bytes mostly fit into the file's last block.
    fn remark_left_out(&mut self, at: Timestamp, why: &str) {
        if !self.is_left_out {
            let mut bytes = self.due_header();
            self.put_own_line(at, why, &mut bytes);
            if self.write(&bytes) {
                self.is_left_out = true;
                self.mid_line_in_file = false;
            }
        }
    }

    /// The header and the section, if they are not in the file yet.
    fn due_header(&self) -> Vec<u8> {
        let mut bytes = if self.length == 0 { HEADER.to_vec() } else { Vec::new() };
        if let Some(section) = &self.due_section {
            file::put_section(section, &mut bytes);
        }
        bytes
    }

    /// A line of the server between the content of the file and the frames that follow.
    fn put_own_line(&self, at: Timestamp, text: &str, to: &mut Vec<u8>) {
        if self.mid_line_in_file {
            file::put_line(at, b"", true, to);
        }
        file::put_line(at, format!("{REMARK_PREFIX}{text}").as_bytes(), true, to);
    }

    /// Returns whether the bytes are in the file.
    fn write(&mut self, bytes: &[u8]) -> bool {
        match self.file.as_ref().map(|file| file.write_all_at(bytes, self.length)) {
            Some(Ok(())) => {
                self.length += bytes.len() as u64;
                self.due_section = None;
                self.space.add(bytes.len() as u64);
                self.registration.appended(self.length);
                self.unsynced += bytes.len() as u64;
                if self.unsynced >= SYNC_STEP {
                    self.sync_file();
                }
                true
            }
            Some(Err(error)) => {
                self.warn_once(&error);
                // The next attempt writes at the same offset; until then readers must not see the partial write.
                self.file.as_ref().map(|file| file.set_len(self.length));
                false
            }
            None => false,
        }
    }

    fn warn_once(&mut self, error: &io::Error) {
        if !self.warned {
            self.warned = true;
            warn!(deployment = %self.registration.file.deployment, %error, "cannot write the log of a deployment");
        }
    }
}

/// The output of one step: split into lines and limited in size.
pub struct StepLog {
    writer: LogWriter,
    cap: OutputCap,
    /// The beginning of an unfinished line, not written yet.
    partial: Vec<u8>,
}

impl StepLog {
    /// Writes whole lines immediately and keeps an unfinished one for [`StepLog::idle`].
    pub fn write(&mut self, at: Timestamp, bytes: &[u8]) {
        let bytes = self.cap.pass(bytes);
        self.put(at, bytes);
        self.writer.append(at);
    }

    /// Call it after a while without output: writes an unfinished line, so that a follower sees a prompt.
    pub fn idle(&mut self, at: Timestamp) {
        let whole = whole_characters(&self.partial, self.partial.len());
        if whole > 0 {
            self.put_partial(at, whole);
            self.writer.append(at);
        }
    }

    /// Call it when the step has ended.
    pub fn finish(mut self, at: Timestamp) -> LogWriter {
        let tail = std::mem::replace(&mut self.cap, OutputCap::new(0)).finish();
        if tail.left_out > 0 {
            self.put_partial(at, self.partial.len());
            self.writer.put_remark(at, &format!("… {} bytes left out …", tail.left_out));
        }
        for piece in tail.bytes.chunks(LINE_BYTES_MAX) {
            self.put(at, piece);
            self.writer.append(at);
        }
        self.put_partial(at, self.partial.len());
        self.writer.append(at);
        self.writer
    }

    fn put(&mut self, at: Timestamp, bytes: &[u8]) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (line, ends) = line.strip_suffix(b"\n").map_or((line, false), |line| (line, true));
            self.partial.extend_from_slice(line);
            while self.partial.len() > LINE_BYTES_MAX {
                self.put_partial(at, whole_characters(&self.partial, LINE_BYTES_MAX));
            }
            if ends {
                self.writer.put_line(at, &self.partial, true);
                self.partial.clear();
            }
        }
    }

    fn put_partial(&mut self, at: Timestamp, bytes: usize) {
        if bytes > 0 {
            self.writer.put_line(at, &self.partial[..bytes], false);
            self.partial.drain(..bytes);
        }
    }
}

/// The largest length up to `most` that does not cut a character, if it is text at all.
fn whole_characters(bytes: &[u8], most: usize) -> usize {
    let head = &bytes[..most];
    for back in 1..=CONTINUATION_BYTES_MAX.min(most) {
        let length = match head[most - back] {
            0b1100_0000..0b1110_0000 => 2,
            0b1110_0000..0b1111_0000 => 3,
            0b1111_0000..0b1111_1000 => 4,
            0b1000_0000..0b1100_0000 => continue,
            _ => 1,
        };
        return if length > back { most - back } else { most };
    }
    most
}

/// The share of the limit for the beginning of the output; the rest is for its end.
const HEAD_QUARTERS: u64 = 3;

/// Limits the output of a step: keeps the beginning as it arrives, and the end, which is only known at the end.
struct OutputCap {
    head_left: u64,
    tail_max: usize,
    /// Holds up to twice `tail_max`, of which only the last `tail_max` count, so that bytes are rarely moved.
    tail: Vec<u8>,
    left_out: u64,
}

/// The output that remains to be written when a step has ended.
#[derive(Debug, PartialEq, Eq)]
struct Tail {
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
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::logs::{LogId, Logs};
    use domain::{DeploymentId, IdSeed, Identifier};

    const AT: Timestamp = Timestamp::from_millis(1_000);

    #[test]
    fn loud_output_is_synced_before_its_step_ends() {
        let dir = tempfile::tempdir().unwrap();
        let logs = Logs::open(dir.path(), u64::MAX).unwrap();
        let (organization, deployment) = (Identifier::parse("acme").unwrap(), DeploymentId(IdSeed([1; 12])));
        let section = Section { stage: "build".into(), step: "one".into(), attempt: 1 };
        let mut step = logs.append(&organization, deployment).unwrap().step(section, 1 << 20);
        for _ in 0..20 {
            step.write(AT, &[b'x'; 10_000]);
            step.write(AT, b"\n");
            assert!(step.writer.unsynced < SYNC_STEP, "{}", step.writer.unsynced);
        }
        assert!(step.writer.length > 2 * SYNC_STEP);
    }

    #[test]
    fn lost_output_is_remarked_upon_when_writing_works_again() {
        let dir = tempfile::tempdir().unwrap();
        let logs = Logs::open(dir.path(), u64::MAX).unwrap();
        let deployment = DeploymentId(IdSeed([1; 12]));
        let section = |step| Section { stage: "build".into(), step, attempt: 1 };
        let organization = Identifier::parse("acme").unwrap();
        let mut step = logs.append(&organization, deployment).unwrap().step(section("one".into()), 1 << 20);
        step.write(AT, b"before\nhalf");
        step.idle(AT);
        let read_only = File::open(dir.path().join(format!("{deployment}.log"))).unwrap();
        let writable = step.writer.file.replace(read_only);
        let mut step = step.finish(AT).step(section("two".into()), 1 << 20);
        step.write(AT, b"lost\n");
        step.writer.file = writable;
        step.write(AT, b"after\n");
        drop(step);
        let mut reader = logs.read(&LogId::whole(&organization, deployment), 0);
        let lines = std::iter::from_fn(|| reader.next_line().unwrap()).collect::<Vec<_>>();
        let texts = lines.iter().map(|line| String::from_utf8_lossy(&line.bytes)).collect::<Vec<_>>();
        assert_eq!(texts[..3], ["before", "half", ""]);
        assert!(texts[3].starts_with("lockkeeper: about ") && texts[4] == "after" && texts.len() == 5, "{texts:?}");
        assert_eq!(&*lines[4].section.as_ref().unwrap().step, "two");
    }

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
