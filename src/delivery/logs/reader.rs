//! Reads a log line by line while it may still be written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;

use super::file::{self, Frame, HEADER, Section};
use crate::if_present;
use domain::Timestamp;

/// One frame of the log, the unit in which pages of a log are counted: a whole line, or a piece of a line that was too
/// long or written in pieces. The text is all `bytes`, with a line break after each frame that ends a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Counted from 0.
    pub number: u64,
    pub at: Timestamp,
    /// `None` for remarks before the first step.
    pub section: Option<Arc<Section>>,
    pub bytes: Vec<u8>,
    pub ends_line: bool,
}

/// All parts of a log, in order. Blocking: use it on a thread that may wait for the disk.
#[derive(Default)]
pub struct LogReader {
    from_line: u64,
    /// The current part and those after it, by their numbers.
    parts: VecDeque<(u32, PathBuf)>,
    newest: Option<u32>,
    /// `None` until the file exists.
    current: Option<PartReader>,
    number: u64,
    section: Option<Arc<Section>>,
    /// Set while the last line is unfinished.
    open_since: Option<Timestamp>,
}

impl LogReader {
    pub(super) fn new(from_line: u64) -> Self {
        Self { from_line, ..Self::default() }
    }

    /// Adds a part, unless the reader already has it or a newer one.
    pub(super) fn add(&mut self, number: u32, path: PathBuf) {
        if self.newest.is_none_or(|newest| newest < number) {
            self.newest = Some(number);
            self.parts.push_back((number, path));
        }
    }

    /// The next line; `None` at the current end of the log. A later call continues from there.
    pub fn next_line(&mut self) -> io::Result<Option<Line>> {
        while let Some(frame) = self.next_frame()? {
            let (at, bytes, ends_line) = match frame {
                Frame::Section(section) => {
                    self.section = Some(Arc::new(section));
                    continue;
                }
                Frame::Line { at, bytes, ends_line } => (at, bytes, ends_line),
            };
            self.open_since = (!ends_line).then_some(at);
            let number = self.number;
            self.number += 1;
            if number >= self.from_line {
                return Ok(Some(Line { number, at, section: self.section.clone(), bytes, ends_line }));
            }
        }
        Ok(None)
    }

    /// The number of lines passed so far; at the end, the number of lines.
    pub fn passed(&self) -> u64 {
        self.number
    }

    fn next_frame(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.opened().map_or(Ok(None), PartReader::next_frame)? {
                return Ok(Some(frame));
            }
            if self.parts.len() < 2 {
                return Ok(None);
            }
            // A part does not grow once there is a newer one.
            self.parts.pop_front();
            self.current = None;
            if let Some(at) = self.open_since {
                return Ok(Some(Frame::Line { at, bytes: Vec::new(), ends_line: true }));
            }
        }
    }

    /// `None` if the file does not exist, or not yet.
    fn opened(&mut self) -> Option<&mut PartReader> {
        if self.current.is_none()
            && let Some((_, path)) = self.parts.front()
        {
            match if_present(PartReader::open(path)) {
                Ok(None) => {}
                Ok(Some(reader)) => (self.current, self.section) = (Some(reader), None),
                Err(error) => warn!(path = %path.display(), %error, "cannot read the log of a deployment"),
            }
        }
        self.current.as_mut()
    }
}

/// The reader of one file.
pub(super) struct PartReader {
    file: BufReader<File>,
    offset: u64,
}

impl PartReader {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: BufReader::new(File::open(path)?), offset: 0 })
    }

    /// The length of the undamaged part of the file, up to the current position.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// `None` at the current end; a later call continues from there.
    pub fn next_frame(&mut self) -> io::Result<Option<Frame>> {
        if self.offset == 0 && !self.skip_header()? {
            return Ok(None);
        }
        let Some((frame, bytes)) = file::read(&mut self.file)? else {
            self.file.seek(SeekFrom::Start(self.offset))?;
            return Ok(None);
        };
        self.offset += bytes;
        Ok(Some(frame))
    }

    fn skip_header(&mut self) -> io::Result<bool> {
        let mut header = Vec::with_capacity(HEADER.len());
        self.file.by_ref().take(HEADER.len() as u64).read_to_end(&mut header)?;
        if header == HEADER {
            self.offset = HEADER.len() as u64;
            return Ok(true);
        }
        self.file.seek(SeekFrom::Start(0))?;
        Ok(false)
    }
}

/// The length of the undamaged part of a file; 0 if there is no such file.
pub(super) fn whole_length(path: &Path) -> io::Result<u64> {
    let Some(mut reader) = if_present(PartReader::open(path))? else { return Ok(0) };
    while reader.next_frame()?.is_some() {}
    Ok(reader.offset())
}
