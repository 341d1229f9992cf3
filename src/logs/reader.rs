//! Reads a log line by line while it may still be written.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use super::frame::{self, Frame, HEADER, Section};
use crate::domain::Timestamp;

/// One frame of the log, the unit in which pages of a log are counted: a whole line, or a piece of a line that was too long
/// or written in pieces. All `bytes`, with a line break after those that end a line, are the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// From 0.
    pub number: u64,
    pub at: Timestamp,
    /// `None` for remarks before the first step.
    pub section: Option<Arc<Section>>,
    pub bytes: Vec<u8>,
    pub ends_line: bool,
}

/// Blocking: use it on a thread that may wait for the disk.
pub struct LogReader {
    file: BufReader<File>,
    offset: u64,
    number: u64,
    section: Option<Arc<Section>>,
    from_line: u64,
}

impl LogReader {
    pub(super) fn open(path: &Path, from_line: u64) -> io::Result<Self> {
        let file = BufReader::new(File::open(path)?);
        Ok(Self { file, offset: 0, number: 0, section: None, from_line })
    }

    /// The next line; `None` at the current end of the log. A later call continues from there.
    pub fn next_line(&mut self) -> io::Result<Option<Line>> {
        while let Some(frame) = self.next_frame()? {
            match frame {
                Frame::Section(section) => self.section = Some(Arc::new(section)),
                Frame::Line { at, bytes, ends_line } => {
                    let number = self.number;
                    self.number += 1;
                    if number >= self.from_line {
                        return Ok(Some(Line { number, at, section: self.section.clone(), bytes, ends_line }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The number of lines passed so far; at the end, the number of lines.
    pub fn passed(&self) -> u64 {
        self.number
    }

    /// The length of the undamaged part of the log.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    fn next_frame(&mut self) -> io::Result<Option<Frame>> {
        if self.offset == 0 && !self.skip_header()? {
            return Ok(None);
        }
        match frame::read(&mut self.file)? {
            Some((frame, bytes)) => {
                self.offset += bytes;
                Ok(Some(frame))
            }
            None => {
                self.file.seek(SeekFrom::Start(self.offset))?;
                Ok(None)
            }
        }
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
