//! Writes a log. Whatever the disk does, the step whose output it is goes on: what cannot be written is counted, and
//! remarked upon as soon as something can be written again.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use tracing::warn;

use super::cap::Cap;
use super::frame::{self, HEAD, LINE_BYTES_MAX, Section};
use super::reader::LogReader;
use super::registry::Registration;
use crate::domain::Timestamp;

const ONLY_OWNER: u32 = 0o600;
/// What the server's own lines begin with.
const OURS: &str = "lockkeeper: ";
/// A character in UTF-8 has at most this many bytes after its first.
const CONTINUATION_BYTES_MAX: usize = 3;

/// Appends to the log of one deployment, which nobody else appends to while this lives. Blocking.
pub struct LogWriter {
    registration: Registration,
    /// None if it could not be opened: then everything is dropped.
    file: Option<File>,
    length: u64,
    section: Option<Section>,
    section_is_written: bool,
    /// Whether the text so far ends within a line.
    mid_line: bool,
    /// The same of what is in the file: the two differ where something was lost.
    mid_line_in_file: bool,
    frames: Vec<u8>,
    lost_bytes: u64,
    warned: bool,
}

impl LogWriter {
    pub(super) fn open(path: &Path, registration: Registration) -> Self {
        let mut writer = Self {
            registration,
            file: None,
            length: 0,
            section: None,
            section_is_written: true,
            mid_line: false,
            mid_line_in_file: false,
            frames: Vec::new(),
            lost_bytes: 0,
            warned: false,
        };
        match writer.open_file(path) {
            Ok(file) => writer.file = Some(file),
            Err(error) => writer.warn_once(&error),
        }
        writer
    }

    /// The step whose output comes now, of which at most so much is kept.
    pub fn step(mut self, section: Section, bytes_max: u64) -> StepLog {
        self.section = Some(section);
        self.section_is_written = false;
        StepLog { writer: self, cap: Cap::new(bytes_max), partial: Vec::new() }
    }

    /// A line of the server's own.
    pub fn remark(&mut self, at: Timestamp, text: &str) {
        self.put_remark(at, text);
        self.append(at);
    }

    /// Everything that was written outlives a power cut from now on.
    pub fn sync(&mut self) {
        let synced = self.file.as_ref().map_or(Ok(()), File::sync_data).and_then(|()| self.registration.sync_dir());
        if let Err(error) = synced {
            self.warn_once(&error);
        }
    }

    fn open_file(&mut self, path: &Path) -> io::Result<File> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(ONLY_OWNER).open(path)?;
        let mut reader = LogReader::open(path, 0)?;
        while let Some(line) = reader.next_line()? {
            self.mid_line = !line.ends_line;
        }
        self.mid_line_in_file = self.mid_line;
        // What follows the last whole frame was being written when the server ended.
        self.length = reader.offset();
        file.set_len(self.length)?;
        Ok(file)
    }

    fn put_remark(&mut self, at: Timestamp, text: &str) {
        if self.mid_line {
            frame::put_line(at, b"", true, &mut self.frames);
        }
        let mut line = format!("{OURS}{}", text.replace('\n', " "));
        line.truncate(line.floor_char_boundary(LINE_BYTES_MAX));
        self.put_line(at, line.as_bytes(), true);
    }

    fn put_line(&mut self, at: Timestamp, bytes: &[u8], ends_line: bool) {
        frame::put_line(at, bytes, ends_line, &mut self.frames);
        self.mid_line = !ends_line;
    }

    /// Hands what was put to the file, with what has to stand before it.
    fn append(&mut self, at: Timestamp) {
        if self.frames.is_empty() {
            return;
        }
        let mut before = if self.length == 0 { HEAD.to_vec() } else { Vec::new() };
        if let Some(section) = self.section.as_ref().filter(|_| !self.section_is_written) {
            frame::put_section(section, &mut before);
        }
        if self.lost_bytes > 0 {
            let text = format!("{OURS}about {} bytes could not be written here", self.lost_bytes);
            if self.mid_line_in_file {
                frame::put_line(at, b"", true, &mut before);
            }
            frame::put_line(at, text.as_bytes(), true, &mut before);
        }
        let output_bytes = self.frames.len() as u64;
        before.append(&mut self.frames);
        match self.file.as_ref().map(|file| file.write_all_at(&before, self.length)) {
            Some(Ok(())) => {
                self.length += before.len() as u64;
                self.section_is_written = true;
                self.lost_bytes = 0;
                self.mid_line_in_file = self.mid_line;
                self.registration.appended(self.length);
            }
            Some(Err(error)) => {
                self.lost_bytes += output_bytes;
                self.warn_once(&error);
                self.take_back();
            }
            None => {}
        }
    }

    /// Part of it may be there: the next try begins in the same place, but until then it should not lie about.
    fn take_back(&mut self) {
        if let Some(file) = &self.file {
            file.set_len(self.length).ok();
        }
    }

    fn warn_once(&mut self, error: &io::Error) {
        if !self.warned {
            self.warned = true;
            warn!(deployment = %self.registration.deployment, %error, "the log of a deployment cannot be written");
        }
    }
}

/// The output of one step on its way into the log: cut into lines, and within its bounds.
pub struct StepLog {
    writer: LogWriter,
    cap: Cap,
    /// The beginning of a line that has not ended and is not written yet.
    partial: Vec<u8>,
}

impl StepLog {
    /// Whole lines are written at once, the beginning of one is kept for [`StepLog::rest`].
    pub fn write(&mut self, at: Timestamp, bytes: &[u8]) {
        let bytes = self.cap.pass(bytes);
        self.put(at, bytes);
        self.writer.append(at);
    }

    /// Nothing has come for a while: what there is of a line is written, so that whoever follows sees a prompt.
    pub fn rest(&mut self, at: Timestamp) {
        let whole = whole_characters(&self.partial, self.partial.len());
        if whole > 0 {
            self.put_partial(at, whole);
            self.writer.append(at);
        }
    }

    /// The step has ended.
    pub fn finish(mut self, at: Timestamp) -> LogWriter {
        let tail = std::mem::replace(&mut self.cap, Cap::new(0)).finish();
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

/// How many of the first `most` bytes do not end within a character, as far as it is text at all.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::domain::{DeploymentId, IdSeed};
    use crate::logs::Logs;

    const AT: Timestamp = Timestamp::from_millis(1_000);

    #[test]
    fn what_the_disk_refuses_is_remarked_upon_when_it_takes_something_again() {
        let dir = tempfile::tempdir().unwrap();
        let logs = Logs::open(dir.path(), u64::MAX).unwrap();
        let deployment = DeploymentId(IdSeed([1; 12]));
        let section = |step| Section { stage: "build".into(), step, attempt: 1 };
        let mut step = logs.append(deployment).step(section("one".into()), 1 << 20);
        step.write(AT, b"before\nhalf");
        step.rest(AT);
        let refusing = File::open(dir.path().join(format!("{deployment}.log"))).unwrap();
        let writable = step.writer.file.replace(refusing);
        let mut step = step.finish(AT).step(section("two".into()), 1 << 20);
        step.write(AT, b"lost\n");
        step.writer.file = writable;
        step.write(AT, b"after\n");
        drop(step);
        let mut reader = logs.read(deployment, 0).unwrap();
        let lines = std::iter::from_fn(|| reader.next_line().unwrap()).collect::<Vec<_>>();
        let texts = lines.iter().map(|line| String::from_utf8_lossy(&line.bytes)).collect::<Vec<_>>();
        assert_eq!(texts[..3], ["before", "half", ""]);
        assert!(texts[3].starts_with("lockkeeper: about ") && texts[4] == "after" && texts.len() == 5, "{texts:?}");
        assert_eq!(&*lines[4].section.as_ref().unwrap().step, "two");
    }
}
